// SPDX-License-Identifier: Apache-2.0
#include "kernels/convolution/chain_time.hpp"

#include <algorithm>
#include <limits>

namespace tessera::convolution {
namespace {

constexpr double k_cycles_per_us = 1755;
constexpr double k_instruction = 1.65;      ///< 16 x 8 x 16 multiplications by mma.sync, four at a time
constexpr double k_matrices = 4;            ///< four matrices from shared memory to registers
constexpr double k_wide_instruction = 1.1;  ///< of the peak's time, by warpgroups
constexpr double k_steps = 4;               ///< of 16 channels, of a tap of a chunk
constexpr double k_kept_bytes = 20e6;       ///< of activations of a layer, that the L2 holds

/// Of a step of all of a tile's warps.
double step_cycles(Cut const& c, ChainCosts const& costs) {
  if (c.wide != 0)
    return costs.warpgroups * k_wide_instruction * c.row_warps * c.column_warps * 8 * c.column_tiles / 2;
  double const multiply = k_instruction * (c.rows() / 16) * (c.columns() / 8);
  double const matrices =
      k_matrices * c.row_warps * c.column_warps * (c.row_tiles + (c.column_tiles + 1) / 2);
  return costs.warps * std::max(multiply, matrices);
}

/// Input, output and residual.
double activation_bytes(ConvStage const& s, bool adds) {
  double const output = 2.0 * s.images * s.height * s.width * s.channels;
  double const pixels = 1.0 * s.images * s.height * s.width * s.stride * s.stride;
  double const input = pixels * k_line * s.chunks * s.cut.splits;
  return (adds ? 2 : 1) * output + input;
}

/// The fastest cut of each layer for so many splits, each by itself. Empty: a layer has none.
std::vector<Cut> fastest_cuts(LayerChain const& chain, Places const& places, int splits,
                              ChainCosts const& costs) {
  std::vector<Cut> result;
  auto const sizes = sizes_of(chain);
  for (std::size_t l = 0; l < chain.layers.size(); ++l) {
    auto const& layer = chain.layers[l];
    double least = std::numeric_limits<double>::infinity();
    Cut best;
    for (auto const& cut : cuts_of(sizes[l], layer, chain.images, splits)) {
      auto const stage = stage_of(sizes[l], layer, chain.images, cut, nullptr);
      double const cycles = cycles_of(stage, layer.residual != -1, places.blocks(splits), costs);
      if (cycles < least) least = cycles, best = cut;
    }
    if (!(least < std::numeric_limits<double>::infinity())) return {};
    result.push_back(best);
  }
  return result;
}

}  // namespace

double cycles_of(ConvStage const& s, bool adds, int workers, ChainCosts const& costs) {
  auto const& c = s.cut;
  double const taps = 1.0 * s.taps() * s.chunks;
  double const least = (c.wide != 0 ? costs.wide_tap : costs.tap) * taps;
  double const compute = std::max(k_steps * taps * step_cycles(c, costs), least) + costs.chunk * s.chunks;
  int const tiles = s.tiles(), waves = (tiles + workers - 1) / workers;
  double const busy = std::min(1.0, static_cast<double>(tiles) / workers);
  double const patch = 1.0 * k_line * s.patch_lines();
  double const load = busy * (k_line * c.rows() * taps + patch * s.chunks) / costs.bytes_per_cycle;
  double const sums = 4.0 * c.columns() * c.rows(), results = 1.0 * c.pixels() * c.rows() / 128;
  double end = costs.tile + costs.sum * sums * c.depth_warps / 128 + costs.store * results;
  if (adds) end += costs.residual * results;
  if (c.splits > 1) end += costs.exchange + sums / 16;
  double const beyond = std::max(0.0, activation_bytes(s, adds) - k_kept_bytes);
  return waves * (std::max(compute, load) + end) + costs.boundary + busy * patch / costs.bytes_per_cycle +
         costs.memory * beyond / 1e6;
}

double chain_us(std::vector<ChainPart> const& launches, ChainCosts const& costs) {
  double cycles = 0;
  for (std::size_t i = 0; i < launches.size(); ++i) {
    auto const& [first, chain, cut] = launches[i];
    cycles += i == 0 ? costs.launch : costs.next_launch;
    for (std::size_t l = 0; l < cut.stages.size(); ++l)
      cycles += cycles_of(cut.stages[l], chain.layers[l].residual != -1, cut.workers, costs);
  }
  return cycles / k_cycles_per_us;
}

Expected<ConvOptions> fastest_options(LayerChain const& chain, Places const& places,
                                      ChainCosts const& costs) {
  // Also what refuses a chain that cannot be cut.
  auto const planned = cut_chain(chain, places);
  if (!planned) return tl::make_unexpected(planned.error());
  auto candidates = chain_options(chain, places, std::numeric_limits<std::size_t>::max());
  ConvOptions as_planned;
  for (auto const& stage : planned->stages) as_planned.cuts.push_back(stage.cut);
  candidates.push_back(std::move(as_planned));
  for (int const splits : {1, 2, 4, 8})
    if (auto cuts = fastest_cuts(chain, places, splits, costs); !cuts.empty()) {
      candidates.emplace_back();
      candidates.back().cuts = std::move(cuts);
    }
  double least = std::numeric_limits<double>::infinity();
  ConvOptions best;
  for (auto const& options : candidates) {
    auto const launches = cut_launches(chain, places, options);
    if (!launches) continue;
    if (double const us = chain_us(*launches, costs); us < least) least = us, best = options;
  }
  best.by_layer = false;
  return best;
}

}  // namespace tessera::convolution
