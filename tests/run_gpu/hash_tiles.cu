// SPDX-License-Identifier: Apache-2.0
#include "run_gpu/hash_tiles.hpp"

#include <utility>

#include "tessera/describe/tile_relation.hpp"
#include "tessera/run/run_tiles.hpp"

namespace tessera::hash_tiles {
namespace {

struct HashTile {
  static constexpr int threads = 32;
  Device device;
  int stage;
  long long base, tiles, first;

  __device__ void operator()(Tile tile, Context& context) const {
    if (threadIdx.x != 0) return;
    long long const linear = linear_of(context.grid, tile);
    auto const* const offset = device.offsets + first + linear;
    auto const round = *static_cast<std::uint64_t const volatile*>(device.round);
    auto const late = mix(mix(round, base + linear), 7);
    if ((late >> 8 & 15) == 0) __nanosleep(static_cast<unsigned>(late % 20000));
    auto const place = base + context.split * tiles + linear;
    wait_if_held(device.held, place, round);
    device.values[place] = value_of(device.needs + offset[0], offset[1] - offset[0], device.values, stage,
                                    linear, context.split, round);
    atomicAdd(device.runs + place, 1u);
    device.places[place] = atomicAdd(device.sequence, 1ull);
  }
};

HashTile tile_of_stage(Layout const& layout, Device const& device, std::size_t stage) {
  return {device, static_cast<int>(stage), layout.base[stage], layout.tiles[stage], layout.first[stage]};
}

template <std::size_t... Stage>
std::vector<StageKernel> kernels_of(Plan const& plan, Layout const& layout, Device const& device,
                                    std::index_sequence<Stage...>) {
  return tile_kernels(plan, tile_of_stage(layout, device, Stage)...);
}

}  // namespace

Layout layout_of(Pipeline const& pipeline) {
  Layout layout;
  for (auto const& stage : pipeline.stages) {
    layout.base.push_back(layout.values);
    layout.tiles.push_back(stage.tiles());
    layout.values += stage.blocks();
  }
  std::vector<std::int64_t> producers;
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
    layout.first.push_back(static_cast<std::int64_t>(layout.offsets.size()));
    layout.offsets.push_back(static_cast<std::int32_t>(layout.needs.size()));
    for (std::int64_t tile = 0; tile < layout.tiles[s]; ++tile) {
      for (auto const& dependence : pipeline.dependences) {
        if (dependence.consumer != static_cast<int>(s)) continue;
        auto const p = static_cast<std::size_t>(dependence.producer);
        TileRelation(pipeline, dependence).producers_of(tile, producers);
        for (auto const producer : producers)
          for (int split = 0; split < pipeline.stages[p].splits; ++split)
            layout.needs.push_back(
                static_cast<std::int32_t>(layout.base[p] + split * layout.tiles[p] + producer));
      }
      layout.offsets.push_back(static_cast<std::int32_t>(layout.needs.size()));
    }
  }
  return layout;
}

std::vector<std::uint64_t> reference(Pipeline const& pipeline, Layout const& layout, std::uint64_t round) {
  std::vector<std::uint64_t> values(static_cast<std::size_t>(layout.values));
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s)
    for (std::int64_t tile = 0; tile < layout.tiles[s]; ++tile) {
      auto const* const offset = layout.offsets.data() + layout.first[s] + tile;
      for (int split = 0; split < pipeline.stages[s].splits; ++split)
        values[static_cast<std::size_t>(layout.base[s] + split * layout.tiles[s] + tile)] =
            value_of(layout.needs.data() + offset[0], offset[1] - offset[0], values.data(),
                     static_cast<int>(s), tile, split, round);
    }
  return values;
}

std::vector<StageKernel> kernels(Plan const& plan, Layout const& layout, Device const& device) {
  switch (plan.stages.size()) {
    case 1: return kernels_of(plan, layout, device, std::make_index_sequence<1>());
    case 2: return kernels_of(plan, layout, device, std::make_index_sequence<2>());
    case 3: return kernels_of(plan, layout, device, std::make_index_sequence<3>());
    case 4: return kernels_of(plan, layout, device, std::make_index_sequence<4>());
    case 5: return kernels_of(plan, layout, device, std::make_index_sequence<5>());
    case 6: return kernels_of(plan, layout, device, std::make_index_sequence<6>());
    default: return {};
  }
}

}  // namespace tessera::hash_tiles
