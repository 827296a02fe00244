// SPDX-License-Identifier: Apache-2.0
#include "kernels/lattice_boltzmann/trip_steps.hpp"

#include <tessera/sync/shared_barrier.cuh>

#include "kernels/lattice_boltzmann/late.cuh"
#include "kernels/lattice_boltzmann/step_launch.cuh"

namespace tessera::lattice_boltzmann {
namespace {

/// Barriers for planes, by turns: of the first steps, from plane 0 on, and of the second ones, from 1 on.
constexpr int k_ring = 4;
__device__ void wait_for(unsigned barriers, int number) {
  while (!barrier_try(barriers + 8 * static_cast<unsigned>(number % k_ring),
                      static_cast<unsigned>(number / k_ring) & 1u)) {
  }
}
/// A whole warp has done its part of a plane.
__device__ void arrive_at(unsigned barriers, int number) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) barrier_arrive(barriers + 8 * static_cast<unsigned>(number % k_ring));
}

template <bool Walls>
__global__ void __launch_bounds__(k_trip_threads, k_trips_on_sm)
    trip_kernel(BoxArguments const __grid_constant__ box, ChipCut const __grid_constant__ cut,
                Lattice<float const> const __grid_constant__ from, Lattice<float> const __grid_constant__ to,
                Relaxation<float> const __grid_constant__ of, unsigned late) {
  extern __shared__ __align__(128) float tessera_trip[];
  __shared__ __align__(8) unsigned long long words[2 * k_ring];
  unsigned const made = shared_address(words), used = made + 8 * k_ring;
  if (threadIdx.x == 0) {
    for (unsigned k = 0; k < k_ring; ++k)
      barrier_init(made + 8 * k, k_first_warps), barrier_init(used + 8 * k, k_second_warps);
    fence_barrier_init();
  }
  __syncthreads();
  behind_the_step_before();
  TripTile const tile(cut, static_cast<int>(blockIdx.x));
  int const thread = static_cast<int>(threadIdx.x), planes = tile.planes();
  if (thread < 32 * k_first_warps) {
    bool const some = thread < tile.columns();
    unsigned const place = tile.place(cut, some ? thread : 0);
    for (int k = 0; k < planes; ++k) {
      dawdle(late, static_cast<unsigned>(k));
      // What has no column waits as well: no warp may arrive twice for others.
      auto const room = [&] {
        if (k > 3) wait_for(used, k - 4);
      };
      if (some)
        first_of_trip<Walls>(box, cell_at(box, place, tile.plane(cut, k)), from, of, room,
                             Middle<Walls>::own(k), tessera_trip, thread);
      else
        room();
      arrive_at(made, k);
    }
  } else {
    int const n = thread - 32 * k_first_warps;
    bool const some = n < tile.cells();
    int const column = tile.column_of(some ? n : 0);
    unsigned const place = tile.place(cut, column);
    // Each phase of a barrier is waited for, those that the third implies too: synccheck counts on it.
    wait_for(made, 0), wait_for(made, 1);
    for (int k = 1; k + 1 < planes; ++k) {
      wait_for(made, k + 1);
      dawdle(late, static_cast<unsigned>(k));
      if (some)
        second_of_trip<Walls>(box, cell_at(box, place, tile.plane(cut, k)), Middle<Walls>::reaching(k),
                              Middle<Walls>::own(k), tessera_trip, column, tile.pitch, of, to);
      arrive_at(used, k - 1);
    }
  }
}

template <bool Walls>
cudaError_t prepare() {
  auto const error = cudaFuncSetAttribute(&trip_kernel<Walls>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                          Middle<Walls>::bytes);
  if (error != cudaSuccess) return error;
  return cudaFuncSetAttribute(&trip_kernel<Walls>, cudaFuncAttributePreferredSharedMemoryCarveout,
                              k_trip_shared_percent);
}
template <bool Walls>
cudaError_t launch(BoxArguments const& box, ChipCut const& cut, float const* from, float* to,
                   Relaxation<float> const& of, unsigned late, cudaStream_t stream) {
  return launch_step({static_cast<unsigned>(cut.count()), k_trip_threads, Middle<Walls>::bytes}, stream,
                     &trip_kernel<Walls>, box, cut, Lattice<float const>(from, box.cells),
                     Lattice<float>(to, box.cells), of, late);
}

}  // namespace

cudaError_t prepare_trips(BoxArguments const& box) {
  return box.kinds != nullptr ? prepare<true>() : prepare<false>();
}
cudaError_t trip_between(BoxArguments const& box, ChipCut const& cut, float const* from, float* to,
                         Relaxation<float> const& of, unsigned late, cudaStream_t stream) {
  return box.kinds != nullptr ? launch<true>(box, cut, from, to, of, late, stream)
                              : launch<false>(box, cut, from, to, of, late, stream);
}

}  // namespace tessera::lattice_boltzmann
