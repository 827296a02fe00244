// SPDX-License-Identifier: Apache-2.0
#include "candidates.hpp"

#include <algorithm>
#include <cmath>

namespace tessera::gemm_sm90 {
namespace {

// One Hopper multiprocessor: 512 dense 16-bit multiply-adds a cycle in each of four tensor cores.
constexpr double products_per_cycle = 4 * 512;
// Seen on one H200 under load, and its copy bandwidth.
constexpr double cycles_per_us = 1550;
constexpr double bytes_per_us = 4.16e6;
// Start, first loads, last stores of a kernel; seen as 6-7 us above the tensor cores' time.
constexpr double overhead_us = 6;
// Between two tiles of a block, unless the other warp group multiplies meanwhile.
constexpr double store_us = 1.2;
// Between the last multiplication of two blocks that share a tile and its store: both write their sums, one
// reads the other's.
constexpr double meet_us = 3;

constexpr int whole_row = 1 << 20;

int up(long long value, long long unit) { return static_cast<int>((value + unit - 1) / unit); }

Problem problem_of(mlp::Shape const& shape, bool first) {
  bool const gated = shape.form == mlp::Form::swiglu;
  if (first)
    return {shape.tokens, gated ? 2 * shape.hidden : shape.hidden,      shape.model, nullptr, nullptr,
            nullptr,      gated ? Activation::swiglu : Activation::gelu};
  return {shape.tokens, shape.model, shape.hidden, nullptr, nullptr, nullptr, Activation::none};
}

struct Ranked {
  Kernel const* kernel;
  Estimate estimate;
};

std::vector<Ranked> rank(mlp::Shape const& shape, bool first, int multiprocessors) {
  Problem const problem = problem_of(shape, first);
  std::vector<Ranked> result;
  for (Kernel const* kernel : kernels_for(shape.type, problem.activation == Activation::swiglu))
    result.push_back({kernel, estimate(kernel->info, problem, multiprocessors)});
  std::stable_sort(result.begin(), result.end(), [](Ranked const& a, Ranked const& b) {
    return a.estimate.microseconds < b.estimate.microseconds;
  });
  return result;
}

std::vector<Ranked> best(std::vector<Ranked> ranked, double slack, std::size_t least, std::size_t most) {
  std::size_t keep = 0;
  while (keep < ranked.size() && keep < most &&
         (keep < least || ranked[keep].estimate.microseconds <= slack * ranked[0].estimate.microseconds))
    ++keep;
  ranked.resize(keep);
  return ranked;
}

}  // namespace

Estimate estimate(KernelInfo const& kernel, Problem const& problem, int multiprocessors) {
  Estimate result;
  int const rows = up(up(problem.rows, kernel.tile_rows), kernel.cluster_rows) * kernel.cluster_rows;
  int const columns =
      up(up(problem.columns, kernel.tile_columns), kernel.cluster_columns) * kernel.cluster_columns;
  result.tiles = rows * columns * kernel.splits;
  result.waves = up(result.tiles, multiprocessors);
  double const tile = 1.0 * kernel.tile_rows * kernel.tile_columns / kernel.splits;
  double const asked = 1.0 * problem.rows * problem.columns;
  result.useful = asked / (tile * result.waves * multiprocessors);
  // Operands come into shared memory at 64 bytes a cycle: what bounds tiles smaller than 128 x 128.
  double const tensor = tile * problem.depth / products_per_cycle;
  double const loads = 2.0 * (kernel.tile_rows + kernel.tile_columns) / kernel.splits * problem.depth / 64;
  double const wave = std::max(tensor, loads) / cycles_per_us;
  double const stores = kernel.pingpong ? 0 : store_us * (result.waves - 1);
  double const bytes = 2.0 * (1.0 * problem.columns * problem.depth + 1.0 * problem.rows * problem.depth +
                              1.0 * problem.rows * problem.output_columns());
  double const meet = kernel.splits > 1 ? meet_us : 0;
  result.microseconds = std::max(wave * result.waves + stores, bytes / bytes_per_us) + overhead_us + meet;
  return result;
}

std::vector<Half> half_candidates(mlp::Shape const& shape, bool first, int multiprocessors, double slack) {
  std::vector<Half> result;
  for (Ranked const& one : best(rank(shape, first, multiprocessors), slack, 4, 10))
    for (int const band : {1, 8, 4, 0})
      for (int const blocks : {multiprocessors, 0}) {
        // One block a tile in one wave is the same as persistent.
        if (blocks == 0 && one.estimate.waves == 1 && band != 1) continue;
        result.push_back({one.kernel, band, blocks});
      }
  return result;
}

std::vector<PairPlan> candidates(mlp::Shape const& shape, int multiprocessors, std::size_t most) {
  auto const firsts = best(rank(shape, true, multiprocessors), 1.4, 3, 5);
  auto const seconds = best(rank(shape, false, multiprocessors), 1.4, 3, 5);
  struct Order {
    int first_band, second_band;
    bool first_persistent, second_persistent;
  };
  std::vector<PairPlan> result;
  auto add = [&](Ranked const& a, Ranked const& b, Order const& order, Mechanism mechanism, int columns,
                 bool early) {
    result.push_back({{a.kernel, order.first_band, order.first_persistent ? multiprocessors : 0},
                      {b.kernel, order.second_band, order.second_persistent ? multiprocessors : 0},
                      mechanism,
                      columns,
                      early,
                      early});
  };
  // Pairs by the sum of their places, so that a cut takes the least promising.
  for (std::size_t sum = 0; sum + 2 <= firsts.size() + seconds.size(); ++sum)
    for (std::size_t i = 0; i <= sum; ++i) {
      if (i >= firsts.size() || sum - i >= seconds.size()) continue;
      Ranked const& a = firsts[i];
      Ranked const& b = seconds[sum - i];
      for (Order const& order : {Order{8, 8, true, true}, Order{1, 1, true, true}}) {
        add(a, b, order, Mechanism::stream_order, 1, false);
        add(a, b, order, Mechanism::pdl, 1, true);
      }
      // Rows that are complete early for a consumer that takes them in this order: worth it only where the
      // producer's last wave leaves room, or the consumer's.
      for (Order const& order : {Order{4, 4, true, false}, Order{1, 1, true, true}, Order{4, 1, true, true}})
        for (int const columns : {whole_row, 1}) add(a, b, order, Mechanism::pdl_tiles, columns, true);
    }
  if (result.size() > most) result.resize(most);
  return result;
}

}  // namespace tessera::gemm_sm90
