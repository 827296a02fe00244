// SPDX-License-Identifier: Apache-2.0
// Steps of cells that are in device memory between steps: kernels behind plain values.
#pragma once

#include <cuda_runtime_api.h>

#include <tessera/sync/wait.cuh>

#include "kernels/lattice_boltzmann/box_cell.hpp"
#include "kernels/lattice_boltzmann/disturbance.hpp"

namespace tessera::lattice_boltzmann {

/// Which of a lattice's places hold the populations of a cell after its last collision.
enum class Layout {
  own,       ///< population i at place i of the cell
  opposite,  ///< at place opposite(i)
  sent,      ///< at place i of the neighbour that it goes to; of a bounce, at the cell's place opposite(i)
};

/// Fields of a flow in device memory; null: density 1, velocity 0, or not wanted.
struct FlowFields {
  float* density = nullptr;
  float* velocity[3] = {};
};

/// Populations of a fluid in equilibrium.
cudaError_t start(BoxArguments const& box, FlowFields const& fields, float* lattice, Layout layout,
                  cudaStream_t stream);
/// Of some cells, from the fields' beginning.
struct CellRange {
  unsigned first = 0, count = 0;
};
cudaError_t flow(BoxArguments const& box, CellRange const& range, float const* lattice, Layout layout,
                 Relaxation<float> const& of, FlowFields const& fields, cudaStream_t stream);

/// One step as a launch, from one lattice to another; layout `own`. `late`: see dawdle().
cudaError_t step_between(BoxArguments const& box, float const* from, float* to, Relaxation<float> const& of,
                         unsigned late, cudaStream_t stream);
/// One step in place: from Layout::opposite to Layout::sent, or back.
cudaError_t step_in_place(BoxArguments const& box, float* lattice, bool reaches, Relaxation<float> const& of,
                          unsigned late, cudaStream_t stream);

/// All steps in one launch, from lattices[0] on in turns, behind a barrier of all blocks.
struct BarrierSteps {
  BoxArguments box;
  float* lattices[2] = {};
  unsigned steps = 0;
  bool cooperative = false;  ///< cooperative groups' barrier in place of Tessera's
  unsigned* barrier = nullptr;
  Disturbance disturbance = {};
};
constexpr int k_barrier_threads = 1024;
void const* barrier_steps_kernel();

}  // namespace tessera::lattice_boltzmann
