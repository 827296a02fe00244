// SPDX-License-Identifier: Apache-2.0
#include "kernels/lattice_boltzmann/slab_steps.hpp"

#include "kernels/lattice_boltzmann/late.cuh"
#include "kernels/lattice_boltzmann/step_launch.cuh"

namespace tessera::lattice_boltzmann {
namespace {

/// What a launch before this one left is there; blocks of this one that add do not matter to steps_of().
__device__ unsigned steps_at(SlabStep const& a, int end) {
  return steps_of(load_counter(&a.words->arrived[end]), blocks_of_end(a.box, k_slab_threads));
}

/// For the end that thread 0 or 1 is of: waits until the neighbour's cells there are as far.
__device__ bool wait_at_end(SlabStep const& a, unsigned ends, DeadlineWatch<> const& watch) {
  int const end = static_cast<int>(threadIdx.x);
  if (end >= k_ends || (ends >> end & 1) == 0 || a.words_of[end] == nullptr) return true;
  return wait_until<Scope::system>(&a.words->told[end], steps_at(a, end), watch,
                                   WaitPlace{end, static_cast<long long>(blockIdx.x), a.neighbours[end]});
}

/// The last of an end's blocks tells the neighbour. What all of them stored is before that: the barrier of
/// each, its arrival, which releases, and the last one's, which acquires.
__device__ void tell_at_end(SlabStep const& a, unsigned ends) {
  int const end = static_cast<int>(threadIdx.x);
  if (end >= k_ends || (ends >> end & 1) == 0 || a.words_of[end] == nullptr || a.silent) return;
  unsigned const blocks = blocks_of_end(a.box, k_slab_threads);
  unsigned long long before;
  asm volatile("atom.acq_rel.sys.global.add.u64 %0, [%1], 1;"
               : "=l"(before)
               : "l"(__cvta_generic_to_global(&a.words->arrived[end]))
               : "memory");
  if ((before + 1) % blocks == 0)
    store_release<Scope::system>(&a.words_of[end]->told[other_end(end)], steps_of(before + 1, blocks));
}

__global__ void __launch_bounds__(k_slab_threads, 4)
    slab_kernel(SlabStep const __grid_constant__ a, Relaxation<float> const __grid_constant__ of,
                DeadlineWatch<> watch) {
  behind_the_step_before();
  auto const part = part_of(a.box, k_slab_threads, blockIdx.x);
  if (a.late != 0) dawdle(a.late, steps_at(a, 0));
  if (part.ends != 0 && __syncthreads_or(wait_at_end(a, part.ends, watch) ? 0 : 1) != 0) return;
  if (threadIdx.x < part.count)
    step_slab_cell(a.box, part.first + threadIdx.x, part.ends, a.from, a.to, a.ways, of);
  if (part.ends == 0) return;
  __syncthreads();
  tell_at_end(a, part.ends);
}

}  // namespace

cudaError_t load_slab_steps() {
  cudaFuncAttributes attributes{};
  return cudaFuncGetAttributes(&attributes, slab_kernel);
}

cudaError_t step_slab(SlabStep const& step, Relaxation<float> const& of, DeadlineWatch<> const& watch,
                      cudaStream_t stream) {
  return launch_step({blocks_of_slab(step.box, k_slab_threads), k_slab_threads}, stream, &slab_kernel, step,
                     of, watch);
}

}  // namespace tessera::lattice_boltzmann
