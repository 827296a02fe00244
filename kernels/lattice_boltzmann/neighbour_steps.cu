// SPDX-License-Identifier: Apache-2.0
#include "kernels/lattice_boltzmann/neighbour_steps.hpp"

#include <tessera/run/run_loop.hpp>

#include "kernels/lattice_boltzmann/box_cell.hpp"
#include "kernels/lattice_boltzmann/late.cuh"

namespace tessera::lattice_boltzmann {
namespace {

struct StepOfTile {
  static constexpr int threads = k_tile_threads;
  NeighbourSteps steps;

  __device__ void operator()(Tile tile, Context& context) const {
    auto const step = static_cast<unsigned>(context.iteration);
    dawdle(steps.disturbance.late, step);
    int const number = tile.at[0] + steps.cut.blocks[0] * (tile.at[1] + steps.cut.blocks[1] * tile.at[2]);
    if (number == steps.disturbance.silent_block && step >= steps.disturbance.silent_from) {
      context.stopped = true;  // a tile that stops does not post
      return;
    }
    unsigned first[3], size[3];
#pragma unroll
    for (int a = 0; a < 3; ++a) {
      first[a] = static_cast<unsigned>(steps.cut.first(a, tile.at[a]));
      size[a] = static_cast<unsigned>(steps.cut.first(a, tile.at[a] + 1)) - first[a];
    }
    auto const from = static_cast<int>(context.iteration & 1) ^ *steps.phase;
    unsigned const cells = size[0] * size[1] * size[2];
    for (unsigned n = threadIdx.x; n < cells; n += static_cast<unsigned>(context.threads)) {
      BoxCell const cell(steps.box, first[0] + n % size[0], first[1] + n / size[0] % size[1],
                         first[2] + n / size[0] / size[1]);
      step_cell(steps.box, cell, Planes<float const>{steps.lattices[from], steps.box.cells},
                Planes<float>{steps.lattices[from ^ 1], steps.box.cells}, steps.of);
    }
  }
};

}  // namespace

Expected<NeighbourLoop> neighbour_loop(LoopPlan const& plan, NeighbourSteps const& steps,
                                       double deadline_seconds, StallGroup* stalls) {
  ChainOptions options;
  options.stalls_with = stalls;
  options.deadline_seconds = deadline_seconds;
  auto made = loop_chain(plan, options, StepOfTile{steps});
  if (!made) return tl::make_unexpected(made.error());
  auto const chain = std::make_shared<LoopChain>(std::move(*made));
  return NeighbourLoop{
      [chain](GpuStream stream, long long iterations) { return chain->launch(stream, iterations); },
      [chain] { return chain->finish(); }, [chain] { return chain->stalled(); }};
}

}  // namespace tessera::lattice_boltzmann
