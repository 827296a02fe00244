// SPDX-License-Identifier: Apache-2.0
#include "kernels/lattice_boltzmann/in_memory.hpp"

#include <cooperative_groups.h>

#include <tessera/sync/barrier.cuh>

#include "kernels/lattice_boltzmann/box_cell.hpp"
#include "kernels/lattice_boltzmann/late.cuh"
#include "kernels/lattice_boltzmann/step_launch.cuh"

namespace tessera::lattice_boltzmann {
namespace {

__device__ unsigned own_cell() { return blockIdx.x * k_step_threads + threadIdx.x; }
unsigned blocks_of(unsigned cells) { return (cells + k_step_threads - 1) / k_step_threads; }
unsigned blocks_for(BoxArguments const& box) { return blocks_of(box.cells); }

__device__ std::size_t place_after(BoxArguments const& box, BoxCell const& cell, int i, Layout layout,
                                   unsigned walls) {
  std::size_t const cells = box.cells;
  if (layout == Layout::own) return i * cells + cell.n;
  // What leaves into a wall comes back as the opposite population.
  if (layout == Layout::opposite || (walls >> opposite(i) & 1) != 0) return opposite(i) * cells + cell.n;
  return i * cells + cell.ahead(i);
}

__global__ void start_kernel(BoxArguments box, FlowFields fields, float* lattice, Layout layout) {
  unsigned const n = own_cell();
  if (n >= box.cells) return;
  auto const links = links_at(box, n);
  bool const solid = (links.walls & k_solid) != 0;
  float u[3], f[k_directions];
  for (int d = 0; d < 3; ++d) u[d] = fields.velocity[d] != nullptr && !solid ? fields.velocity[d][n] : 0;
  float const density = fields.density != nullptr && !solid ? fields.density[n] : 1;
  equilibrium(density - 1, u, f);
  BoxCell const cell(box, n);
#pragma unroll
  for (int i = 0; i < k_directions; ++i) lattice[place_after(box, cell, i, layout, links.walls)] = f[i];
}

__global__ void flow_kernel(BoxArguments box, CellRange range, float const* lattice, Layout layout,
                            Relaxation<float> const __grid_constant__ of, FlowFields fields) {
  unsigned const to = own_cell(), n = range.first + to;
  if (to >= range.count) return;
  auto const links = links_at(box, n);
  float density = 1, u[3] = {0, 0, 0};
  if ((links.walls & k_solid) == 0) {
    BoxCell const cell(box, n);
    float f[k_directions];
#pragma unroll
    for (int i = 0; i < k_directions; ++i) f[i] = lattice[place_after(box, cell, i, layout, links.walls)];
    flow_of(f, of, density, u);
  }
  if (fields.density != nullptr) fields.density[to] = density;
  for (int d = 0; d < 3; ++d)
    if (fields.velocity[d] != nullptr) fields.velocity[d][to] = u[d];
}

__global__ void __launch_bounds__(k_step_threads, 4)
    between_kernel(BoxArguments const __grid_constant__ box,
                   Lattice<float const> const __grid_constant__ from,
                   Lattice<float> const __grid_constant__ to, Relaxation<float> const __grid_constant__ of,
                   unsigned late) {
  behind_the_step_before();
  dawdle(late, 0);
  unsigned const n = own_cell();
  if (n < box.cells) step_cell(box, BoxCell(box, n), from, to, of);
}

template <bool Reaches>
__global__ void __launch_bounds__(k_step_threads, 3)
    in_place_kernel(BoxArguments box, float* lattice, Relaxation<float> const __grid_constant__ of,
                    unsigned late) {
  behind_the_step_before();
  dawdle(late, 0);
  unsigned const n = own_cell();
  if (n >= box.cells) return;
  auto const links = links_at(box, n);
  if ((links.walls & k_solid) != 0) return;
  BoxCell const cell(box, n);
  float f[k_directions];
#pragma unroll
  for (int i = 0; i < k_directions; ++i) f[i] = lattice[place_in_box<Reaches>(box, cell, i, links.walls)];
  add_lids(links.lids, of, f);
  collide(f, of);
#pragma unroll
  for (int i = 0; i < k_directions; ++i)
    lattice[place_in_box<Reaches>(box, cell, i, links.walls)] = f[opposite(i)];
}

__global__ void __launch_bounds__(k_barrier_threads, 1)
    barrier_steps(BarrierSteps const __grid_constant__ a, DeadlineWatch<> watch,
                  Relaxation<float> const __grid_constant__ of) {
  GridBarrier<DeadlineWatch<>> barrier({a.barrier, gridDim.x}, blockIdx.x, watch);
  for (unsigned step = 0; step < a.steps; ++step) {
    dawdle(a.disturbance.late, step);
    // All blocks sweep over the box together: neighbours in memory are in the L2 at the same time.
    for (unsigned n = blockIdx.x * k_barrier_threads + threadIdx.x; n < a.box.cells;
         n += gridDim.x * k_barrier_threads)
      step_cell(a.box, BoxCell(a.box, n), Planes<float const>{a.lattices[step & 1], a.box.cells},
                Planes<float>{a.lattices[step & 1 ^ 1], a.box.cells}, of);
    bool const silent =
        static_cast<int>(blockIdx.x) == a.disturbance.silent_block && step >= a.disturbance.silent_from;
    if (a.cooperative)
      cooperative_groups::this_grid().sync();
    else if (silent)
      return;
    else if (!barrier.sync())
      return;
  }
}

}  // namespace

cudaError_t start(BoxArguments const& box, FlowFields const& fields, float* lattice, Layout layout,
                  cudaStream_t stream) {
  start_kernel<<<blocks_for(box), k_step_threads, 0, stream>>>(box, fields, lattice, layout);
  return cudaGetLastError();
}
cudaError_t flow(BoxArguments const& box, CellRange const& range, float const* lattice, Layout layout,
                 Relaxation<float> const& of, FlowFields const& fields, cudaStream_t stream) {
  flow_kernel<<<blocks_of(range.count), k_step_threads, 0, stream>>>(box, range, lattice, layout, of, fields);
  return cudaGetLastError();
}
cudaError_t step_between(BoxArguments const& box, float const* from, float* to, Relaxation<float> const& of,
                         unsigned late, cudaStream_t stream) {
  return launch_step({blocks_for(box), k_step_threads}, stream, &between_kernel, box,
                     Lattice<float const>(from, box.cells), Lattice<float>(to, box.cells), of, late);
}
cudaError_t step_in_place(BoxArguments const& box, float* lattice, bool reaches, Relaxation<float> const& of,
                          unsigned late, cudaStream_t stream) {
  return launch_step({blocks_for(box), k_step_threads}, stream,
                     reaches ? &in_place_kernel<true> : &in_place_kernel<false>, box, lattice, of, late);
}
void const* barrier_steps_kernel() { return reinterpret_cast<void const*>(&barrier_steps); }

}  // namespace tessera::lattice_boltzmann
