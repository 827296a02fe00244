// SPDX-License-Identifier: Apache-2.0
#include "problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace tessera::attention_sm90 {
namespace {

constexpr std::array k_head_sizes{64, 80, 96, 128, 256};
constexpr int k_unit = 8;  ///< elements of 16 bytes, which the copy engine counts in

tl::unexpected<Diagnostics> refused(std::string why, std::string way_out) {
  Diagnostics one(1);
  one.front().code = "E0590";
  one.front().message = "attention: " + std::move(why);
  one.front().suggestion = std::move(way_out);
  return tl::make_unexpected(std::move(one));
}

Expected<void> check_rows(char const* of, char const* name, int rows, int sequences, int step,
                          int const* offsets) {
  if (offsets != nullptr) return {};
  if (step == 0 && rows % sequences != 0)
    return refused(fmt::format("{} rows of {} are not {} equal sequences", rows, of, sequences),
                   fmt::format("give {}_offsets", name));
  auto const each = rows - (sequences - 1LL) * step;
  if (step != 0 && (step < 0 || each < 1 || each > step))
    return refused(
        fmt::format("{} rows of {} are not {} sequences at steps of {}", rows, of, sequences, step),
        fmt::format("let {}_step hold a sequence, and the rows end with the last one", name));
  return {};
}

Expected<void> check_sizes(Problem const& p) {
  if (p.sequences < 1 || p.heads < 1 || p.query_rows < 1 || p.key_rows < 1 || p.longest_queries < 1)
    return refused(fmt::format("{} sequences, {} heads, {} rows of queries, at most {} of a sequence, and {} "
                               "of keys: one of them is none",
                               p.sequences, p.heads, p.query_rows, p.longest_queries, p.key_rows),
                   "give each a number above zero");
  if (p.key_heads < 1 || p.heads % p.key_heads != 0)
    return refused(fmt::format("{} heads cannot share {} key heads evenly", p.heads, p.key_heads),
                   "let heads be a multiple of key_heads");
  if (compiled_head_size(p.head_size) == 0)
    return refused(fmt::format("no kernel for heads of {}", p.head_size),
                   fmt::format("heads are of {}", fmt::join(k_head_sizes, ", ")));
  if (auto fine = check_rows("queries", "query", p.query_rows, p.sequences, p.query_step, p.query_offsets);
      !fine)
    return fine;
  if (auto fine = check_rows("keys", "key", p.key_rows, p.sequences, p.key_step, p.key_offsets); !fine)
    return fine;
  auto const tiles = tiles_of(p);
  auto const count = 1LL * tiles.heads * tiles.query_blocks * tiles.sequences;
  if (count > 0x7fffffff)
    return refused(fmt::format("{} tiles are more than a launch has", count), "launch it in parts");
  return {};
}

Expected<void> check_options(Problem const& p) {
  if (p.window < 0) return refused(fmt::format("a window of {} keys", p.window), "0 is no window");
  if (!(p.scale > 0) || !std::isfinite(p.scale))
    return refused(fmt::format("scores cannot be scaled by {}", p.scale),
                   "give a number above zero, or 0 for 1 / sqrt(head_size)");
  if (!(p.drop >= 0 && p.drop < 1))
    return refused(fmt::format("weights cannot be dropped with a chance of {}", p.drop),
                   "give a chance from 0 to below 1");
  if (p.drop > 0 && compiled_head_size(p.head_size, true) == 0)
    return refused(fmt::format("heads of {} are not compiled with dropout", p.head_size),
                   "heads of 64, 80, 96 and 128 are");
  if (p.drop > 0 && p.type != ElementType::bf16)
    return refused("fp16 is not compiled with dropout", "bf16 is");
  if (p.turned_keys && p.head_size % 64 != 0)
    return refused(fmt::format("a cache whose rows are turned, with heads of {}", p.head_size),
                   "heads of 64, 128 and 256 can be read so");
  return {};
}

Expected<void> check_strides(Problem const& p) {
  struct Named {
    char const* name;
    Strides const& strides;
    int heads;
  };
  for (auto const& [name, s, heads] : {Named{"q", p.q, p.heads}, Named{"k", p.k, p.key_heads},
                                       Named{"v", p.v, p.key_heads}, Named{"out", p.out, p.heads}})
    for (long long const stride : {s.row, s.head, s.group})
      if (stride <= 0 || stride % k_unit != 0 || stride >= 1LL << 39)
        return refused(fmt::format("a stride of {} elements in {}", stride, name),
                       fmt::format("let strides be multiples of {} above zero", k_unit));
  return {};
}

Strides completed(Strides strides, int heads, int group, int head_size) {
  if (strides.row == 0) strides.row = 1LL * heads * head_size;
  if (strides.head == 0) strides.head = head_size;
  if (strides.group == 0) strides.group = group * strides.head;
  return strides;
}

}  // namespace

Problem completed(Problem p) {
  if (p.key_heads == 0) p.key_heads = p.heads;
  if (p.key_rows == 0) p.key_rows = p.query_rows;
  if (p.longest_queries == 0)
    p.longest_queries = p.query_offsets == nullptr && p.sequences > 0
                            ? std::max(rows_each(p.query_rows, p.sequences, p.query_step), 1)
                            : p.query_rows;
  if (p.window > 0) p.causal = true;
  if (p.scale == 0 && p.head_size > 0)
    p.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(p.head_size)));
  int const group = p.key_heads > 0 ? p.heads / p.key_heads : 1;
  p.q = completed(p.q, p.heads, group, p.head_size);
  p.out = completed(p.out, p.heads, group, p.head_size);
  p.k = completed(p.k, p.key_heads, 1, p.head_size);
  p.v = completed(p.v, p.key_heads, 1, p.head_size);
  return p;
}

Expected<void> check(Problem const& problem) {
  auto const p = completed(problem);
  for (auto const step : {&check_sizes, &check_options, &check_strides})
    if (auto fine = step(p); !fine) return fine;
  return {};
}

int compiled_head_size(int head_size, bool drops) {
  if (std::find(k_head_sizes.begin(), k_head_sizes.end(), head_size) == k_head_sizes.end()) return 0;
  if (!drops) return head_size;
  return head_size <= 64 ? 64 : head_size <= 128 ? 128 : 0;
}

TileSize tile_size(int head_size) { return {128, head_size == 256 ? 64 : 128}; }

Tiles tiles_of(Problem const& problem, int tile_queries) {
  auto const p = completed(problem);
  int const queries = tile_queries > 0 ? tile_queries : tile_size(p.head_size).queries;
  return {p.heads, (p.longest_queries + queries - 1) / queries, p.sequences};
}

}  // namespace tessera::attention_sm90
