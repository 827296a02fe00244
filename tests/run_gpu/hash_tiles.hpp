// SPDX-License-Identifier: Apache-2.0
// Tiles whose value is a hash of everything that they read, for any pipeline: a tile that is read too early,
// too late, twice or not at all changes all that come after it. The same function on the GPU and on the CPU.
#pragma once

#include <cstdint>
#include <vector>

#include "run_gpu/held_tile.cuh"
#include "support/mix.hpp"
#include "tessera/run/chain.hpp"

namespace tessera::hash_tiles {

using support::mix;

/// A pipeline's values: one for each split of each tile, stage after stage, at base + split * tiles + tile.
struct Layout {
  std::vector<std::int64_t> base;   ///< by stage
  std::vector<std::int64_t> tiles;  ///< by stage
  std::vector<std::int64_t> first;  ///< by stage: where its tiles' entries of `offsets` begin
  std::vector<std::int32_t>
      offsets;                      ///< tile t of stage s reads needs[offsets[first[s] + t]] to ...[... + 1]
  std::vector<std::int32_t> needs;  ///< indices of values
  std::int64_t values = 0;
};
Layout layout_of(Pipeline const& pipeline);

/// What split `split` of a tile is, in round `round`, from the values of all tiles before it.
TESSERA_HOST_DEVICE inline std::uint64_t value_of(std::int32_t const* needs, int count,
                                                  std::uint64_t const* values, int stage, std::int64_t tile,
                                                  int split, std::uint64_t round) {
  auto h = mix(mix(mix(round, static_cast<std::uint64_t>(stage)), static_cast<std::uint64_t>(tile)),
               static_cast<std::uint64_t>(split));
  for (int i = 0; i < count; ++i) h = mix(h, values[needs[i]]);
  return h;
}

/// All values of a round, stage after stage.
std::vector<std::uint64_t> reference(Pipeline const& pipeline, Layout const& layout, std::uint64_t round);

/// Device memory of one pipeline.
struct Device {
  std::uint64_t* values = nullptr;
  std::uint64_t const* round = nullptr;
  std::int32_t const* offsets = nullptr;
  std::int32_t const* needs = nullptr;
  unsigned* runs = nullptr;                ///< by value: how often it was computed
  unsigned long long* sequence = nullptr;  ///< counts tiles as they are computed
  unsigned long long* places = nullptr;    ///< by value: its place in that sequence, in the last round
  HeldTile const* held = nullptr;          ///< by its index among the values; may be left out
};

constexpr int k_most_stages = 6;

/// The kernels of a plan over at most k_most_stages stages. Some tiles are late by up to 20 us, others than
/// in the round before.
std::vector<StageKernel> kernels(Plan const& plan, Layout const& layout, Device const& device);

}  // namespace tessera::hash_tiles
