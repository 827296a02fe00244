// SPDX-License-Identifier: Apache-2.0
#include "sizes.hpp"

#include <algorithm>
#include <cstdio>

namespace tessera::skinny_gemm {
namespace {

/// Blocks of the depth to a stage, and bytes of the ring. With the smaller ring a block of this launch and,
/// but for 49 rows and more in clusters of four, one of the next are on an SM together: weights of the next
/// are on their way while this one ends. With the larger ones more of them are. Which is faster depends on
/// the sizes.
struct RingBytes {
  int stage_depth, bytes;
};
constexpr RingBytes k_rings[] = {{2, 104 * 1024}, {2, 208 * 1024}, {4, 160 * 1024}};
constexpr int k_bytes_in_flight = 64 * 1024;
/// Beyond it a cut leaves too many SMs idle to be worth trying: fewer that read more can be as fast as all.
constexpr double k_most_uneven = 2.2;

int ceiling(int value, int by) { return (value + by - 1) / by; }
int up(int value, int to) { return ceiling(value, to) * to; }

/// Sums that the other blocks of a cluster send to one.
int received_bytes(Problem const& problem, Config const& c) {
  return (c.split - 1) * ceiling(problem.rows, c.split) * c.columns * 4;
}

}  // namespace

int instruction_columns(int rows) { return rows <= 16 ? 16 : rows <= 32 ? 32 : 64; }
int warpgroups_of(Config const& c) { return ceiling(c.columns, 64); }
int steps_of(Problem const& problem, Config const& c) {
  return ceiling(problem.depth / k_block, c.split * c.stage_depth);
}
int blocks_of(Problem const& problem, Config const& c) {
  return ceiling(problem.columns, c.columns) * c.split;
}

Layout layout_of(Problem const& problem, Config const& c) {
  Layout result;
  result.rows = up(problem.rows, 8);
  result.weights = c.stage_depth * c.columns * 128;
  result.stage = result.weights + c.stage_depth * result.rows * 128;
  // Instructions read on behind the rows of both operands, in the ring's last stage, too.
  int const behind = std::max({(instruction_columns(problem.rows) - result.rows) * 128,
                               (warpgroups_of(c) * 64 - c.columns - c.stage_depth * result.rows) * 128, 0});
  int const partials = result.rows * (warpgroups_of(c) * 64 + 4) * 4;
  result.barriers = up(std::max(c.stages * result.stage + behind, partials), 8);
  result.scales = result.barriers + k_stage_barrier_bytes * c.stages + 8;
  result.received = up(result.scales + 4 * result.rows, 16);
  result.total = result.received + received_bytes(problem, c);
  return result;
}

int in_flight_of(Layout const& layout, Config const& c) {
  return std::clamp(k_bytes_in_flight / layout.weights, 1, c.stages);
}

bool supports(Problem const& p) {
  return p.rows >= 1 && p.rows <= k_most_rows && p.columns >= 8 &&
         (p.columns % 8 == 0 || p.result == Result::fp32) && p.depth >= k_block && p.depth % k_block == 0;
}

bool allows(Problem const& problem, Config const& c) {
  bool const split = c.split == 1 || c.split == 2 || c.split == 4 || c.split == 8;
  return c.columns >= 16 && c.columns <= 128 && c.columns % 16 == 0 && split &&
         (c.stage_depth == 2 || c.stage_depth == 4) && c.stages >= 2 && c.stages <= k_most_stages &&
         layout_of(problem, c).total <= k_most_shared;
}

std::string cut_name(Config const& c) {
  auto const text = [](int number) { return std::to_string(number); };
  return text(c.columns) + 'x' + text(c.split) + 'x' + text(c.stage_depth) + 'x' + text(c.stages);
}

std::optional<Config> parse_cut(std::string const& name) {
  Config c;
  char behind = 0;
  int const read =
      std::sscanf(name.c_str(), "%dx%dx%dx%d%c", &c.columns, &c.split, &c.stage_depth, &c.stages, &behind);
  if (read != 4 || cut_name(c) != name) return {};
  return c;
}

std::vector<Config> configs(Problem const& problem, int sms) {
  if (!supports(problem) || sms < 1) return {};
  struct Choice {
    Config config;
    double uneven;  ///< the work of the SM that has the most, times SMs, beside all work
  };
  std::vector<Choice> all;
  for (int const columns : {32, 48, 64, 80, 96, 112, 128})
    for (int const split : {1, 2, 4})
      for (auto const [stage_depth, bytes] : k_rings) {
        Config c{columns, split, stage_depth, 2};
        int const steps = steps_of(problem, c);
        if (steps < 2 && split > 1) continue;
        int const of_ring = bytes - received_bytes(problem, c);
        int const stages = std::min({of_ring / layout_of(problem, c).stage, k_most_stages, steps});
        c.stages = std::max(stages, 2);
        if (!allows(problem, c)) continue;
        int const blocks = blocks_of(problem, c);
        all.push_back({c, static_cast<double>(ceiling(blocks, sms)) * sms / blocks});
      }
  auto const least = std::min_element(all.begin(), all.end(),
                                      [](auto const& a, auto const& b) { return a.uneven < b.uneven; });
  std::vector<Config> result;
  for (auto const& one : all)
    if (one.uneven <= k_most_uneven * least->uneven) result.push_back(one.config);
  return result;
}

}  // namespace tessera::skinny_gemm
