// SPDX-License-Identifier: Apache-2.0
// Steps in one launch of a loop, whose tiles wait for the tiles around them: compiled behind plain values.
#pragma once

#include <functional>
#include <tessera/plan/loop_plan.hpp>
#include <tessera/run/chain.hpp>

#include "kernels/lattice_boltzmann/chip_block.hpp"
#include "kernels/lattice_boltzmann/in_memory.hpp"

namespace tessera::lattice_boltzmann {

struct NeighbourSteps {
  BoxArguments box;
  ChipCut cut;
  float* lattices[2] = {};
  int const* phase = nullptr;  ///< 0: the first step of a launch reads lattices[0]
  Relaxation<float> of;
  Disturbance disturbance = {};
};

struct NeighbourLoop {
  std::function<Expected<void>(GpuStream, long long)> launch;
  std::function<Expected<void>()> finish;
  std::function<bool()> stalled;
};
constexpr int k_tile_threads = 768;
Expected<NeighbourLoop> neighbour_loop(LoopPlan const& plan, NeighbourSteps const& steps,
                                       double deadline_seconds, StallGroup* stalls);

}  // namespace tessera::lattice_boltzmann
