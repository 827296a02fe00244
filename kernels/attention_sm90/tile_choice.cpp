// SPDX-License-Identifier: Apache-2.0
#include "tile_choice.hpp"

#include <algorithm>

namespace tessera::attention_sm90 {
namespace {

/// Of a tile: what begins and ends it, which nothing else hides, as an SM has one block.
constexpr double k_tile_us = 1;
/// For 128 keys of heads of 128, by docs/design/notes-attention.md.
double keys_us(int tile_queries) { return tile_queries == 64 ? 1.16 : tile_queries == 128 ? 1.68 : 2.4; }

}  // namespace

std::vector<int> tile_choices(Problem const& problem) {
  if (problem.head_size == 128 && problem.type == ElementType::bf16 && !(problem.drop > 0))
    return {64, k_usual_queries, 192};
  return {k_usual_queries};
}

double estimate(Problem const& problem, int tile_queries, int sms) {
  auto const p = completed(problem);
  int const average = p.query_offsets != nullptr ? (p.query_rows + p.sequences - 1) / p.sequences
                                                 : rows_each(p.query_rows, p.sequences, p.query_step);
  int const keys =
      p.key_offsets != nullptr ? p.key_rows / p.sequences : rows_each(p.key_rows, p.sequences, p.key_step);
  Sequence const s{0, std::min(average, p.longest_queries), 0, keys};
  int const blocks = (s.queries + tile_queries - 1) / tile_queries;
  constexpr int k_keys = 128;
  int most = 0;
  long long all = 0;
  for (int block = 0; block < blocks; ++block) {
    int const first = block * tile_queries;
    auto const seen = Sight{p.causal, p.window}.of(s, first, std::min(first + tile_queries, s.queries) - 1);
    int const steps = seen.empty() ? 0 : (seen.end + k_keys - 1) / k_keys - seen.begin / k_keys;
    most = std::max(most, steps);
    all += steps;
  }
  auto const us = [&](double tiles, double steps) {
    return tiles * k_tile_us + steps * keys_us(tile_queries);
  };
  double const longest = us(1, most), sum = us(blocks, static_cast<double>(all));
  double const columns = 1.0 * p.heads * p.sequences, tiles = columns * blocks;
  if (tiles <= sms) return longest;
  // Tiles of one length go in rounds. Others, the longest first, end within half of an average one.
  if (all == 1LL * most * blocks)
    return longest * static_cast<double>((static_cast<long long>(tiles) + sms - 1) / sms);
  return std::max(longest, columns * sum / sms + sum / blocks / 2);
}

int choose_tile_queries(Problem const& problem, int sms) {
  int best = k_usual_queries;
  auto const choices = tile_choices(problem);
  if (choices.size() == 1) return best;
  double least = estimate(problem, best, sms);
  for (int const queries : choices)
    if (double const one = estimate(problem, queries, sms); one < least) best = queries, least = one;
  return best;
}

}  // namespace tessera::attention_sm90
