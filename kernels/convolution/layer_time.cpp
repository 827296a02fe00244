// SPDX-License-Identifier: Apache-2.0
#include "kernels/convolution/layer_time.hpp"

#include <algorithm>

#include "kernels/convolution/layer_cut.hpp"

namespace tessera::convolution {
namespace {

constexpr double k_cycles_per_us = 1755;
constexpr double k_steps = 4;  ///< of 16 channels, of a tap of a chunk

constexpr int k_sums_beside = 64;  ///< of a thread: all kernels have registers for two blocks

/// Blocks that are there at once, and how tiles come to them.
struct Residency {
  int blocks, of_sm, rounds;
  double late;  ///< part of the blocks that begin when others end, while the launch before still runs
};
Residency residency_of(ConvStage const& s, int sms) {
  auto const& c = s.cut;
  int const of_block = memory_of(s).bytes() <= k_half_of_sm && layer_sums(c) <= k_sums_beside ? 2 : 1;
  // Clusters lie within a part of the GPU: of 4 and 8 blocks not all SMs have one.
  int const whole = c.splits == 8 ? sms * 28 / 33 : c.splits == 4 ? sms * 10 / 11 : sms;
  int const blocks = whole * of_block, tiles = s.tiles();
  // Clusters of 4 and more find no room beside others on the same SMs.
  bool const fill = c.splits >= 4 && tiles > whole;
  return {blocks, (tiles + sms - 1) / sms, (tiles + blocks - 1) / blocks,
          fill ? 1.0 : std::clamp((2.0 * tiles - blocks) / tiles, 0.0, 1.0)};
}

/// A block's multiplications alone on an SM, and what those of another one beside it add.
struct Multiply {
  double alone, beside;
};
Multiply multiply_of(ConvStage const& s, LayerCosts const& costs) {
  auto const& c = s.cut;
  double const steps = k_steps * s.taps() * s.chunks;
  if (c.wide != 0) {
    double const columns = steps * c.row_warps * c.column_warps * 8 * c.column_tiles;
    return {steps / c.depth_warps * costs.wide_step + columns * costs.wide_column,
            columns * costs.wide_beside};
  }
  // Operands take longer than the instructions that multiply them.
  double const matrices =
      steps * costs.matrices * c.row_warps * c.column_warps * (c.row_tiles + (c.column_tiles + 1) / 2);
  return {matrices + costs.slot * s.slots(), matrices * costs.beside};
}

}  // namespace

double layer_cycles(ConvStage const& s, bool adds, int sms, LayerCosts const& costs) {
  auto const& c = s.cut;
  auto const memory = memory_of(s);
  auto const there = residency_of(s, sms);
  auto const multiply = multiply_of(s, costs);
  double chain = multiply.alone;
  // A ring that holds less than all has a new part of it when one is free and what was asked for is there.
  if (memory.patches < s.chunks)
    chain = std::max(chain, (s.chunks * costs.patch_wait + multiply.alone) / memory.patches);

  // What the ring holds is there before pixels are, if the launch before leaves room.
  double const filters = 1.0 * s.slots() * s.slot_bytes();
  double const not_held = 1.0 * (s.slots() - memory.slots) * s.slot_bytes();
  double const first = not_held + there.late * (filters - not_held);
  double const pixels = 1.0 * k_line * s.patch_lines() * s.chunks;
  double const load = (first + (there.of_sm - 1) * filters + there.of_sm * pixels) / costs.bytes_per_cycle;

  double const sums = 4.0 * c.rows() * c.columns() * c.depth_warps;
  double end = c.rows() * (costs.column * c.columns() + costs.pixel * c.pixels()) / 128 / c.splits;
  double const added = adds ? costs.residual * c.rows() * c.pixels() / 128 / c.splits : 0;
  if (c.splits > 1)
    end += costs.exchange + costs.sent * sums;
  else if (c.depth_warps > 1)
    end += costs.met * sums;

  int const beside = std::max(0, there.of_sm - there.rounds);
  double const input = 1.0 * s.images * s.input_height * s.input_width * k_line * s.chunks * c.splits;
  double const output = 2.0 * s.images * s.height * s.width * s.channels;
  return costs.boundary + there.late * (c.splits > 1 ? costs.late_cluster : costs.late) +
         there.rounds * (costs.round + end + added) + (there.rounds - 1) * costs.turn +
         std::max(there.rounds * chain + beside * multiply.beside, load) +
         beside * (costs.block_beside + added) + (input + (adds ? 2 : 1) * output) / costs.activation_bytes;
}

double layer_us(ConvStage const& s, bool adds, int sms, LayerCosts const& costs) {
  return layer_cycles(s, adds, sms, costs) / k_cycles_per_us;
}

}  // namespace tessera::convolution
