// SPDX-License-Identifier: Apache-2.0
#include "kernels/lattice_boltzmann/trip_steps.hpp"

#include "kernels/lattice_boltzmann/step_launch.cuh"

namespace tessera::lattice_boltzmann {
namespace {

template <bool Walls>
__global__ void __launch_bounds__(k_trip_threads, k_trips_on_sm)
    trip_kernel(BoxArguments const __grid_constant__ box, ChipCut const __grid_constant__ cut,
                float const* __restrict__ from, float* __restrict__ to,
                Relaxation<float> const __grid_constant__ of) {
  extern __shared__ __align__(128) float tessera_trip[];
  auto* const places =
      reinterpret_cast<unsigned*>(tessera_trip + Middle<Walls>::words * Middle<Walls>::columns);
  auto* const columns_of = reinterpret_cast<unsigned short*>(places + Middle<Walls>::columns);
  TripTile const tile(cut, static_cast<int>(blockIdx.x));
  int const columns = tile.columns(), cells = tile.cells(), planes = tile.planes();
  for (int c = static_cast<int>(threadIdx.x); c < columns; c += k_trip_threads)
    places[c] = tile.place(cut, c);
  for (int n = static_cast<int>(threadIdx.x); n < cells; n += k_trip_threads)
    columns_of[n] = static_cast<unsigned short>(tile.column_of(n));
  __syncthreads();
  behind_the_step_before();
  for (int k = 0; k < planes; ++k) {
    auto const made = Middle<Walls>::own(k);
    int const z = tile.plane(cut, k);
#pragma unroll 1
    for (int c = static_cast<int>(threadIdx.x); c < columns; c += k_trip_threads)
      first_of_trip<Walls>(box, cell_at(box, places[c], z), from, of, made, tessera_trip, c);
    if (k < 2) continue;  // what a thread writes again it has written itself
    __syncthreads();
    auto const taken = Middle<Walls>::reaching(k - 1), own = Middle<Walls>::own(k - 1);
    int const behind = tile.plane(cut, k - 1);
#pragma unroll 1
    for (int n = static_cast<int>(threadIdx.x); n < cells; n += k_trip_threads) {
      int const c = columns_of[n];
      second_of_trip<Walls>(box, cell_at(box, places[c], behind), taken, own, tessera_trip, c, tile.pitch, of,
                            to);
    }
    __syncthreads();
  }
}

template <bool Walls>
cudaError_t prepare() {
  auto const error = cudaFuncSetAttribute(&trip_kernel<Walls>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                          Middle<Walls>::bytes);
  if (error != cudaSuccess) return error;
  return cudaFuncSetAttribute(&trip_kernel<Walls>, cudaFuncAttributePreferredSharedMemoryCarveout,
                              cudaSharedmemCarveoutMaxShared);
}
template <bool Walls>
cudaError_t launch(BoxArguments const& box, ChipCut const& cut, float const* from, float* to,
                   Relaxation<float> const& of, cudaStream_t stream) {
  return launch_step({static_cast<unsigned>(cut.count()), k_trip_threads, Middle<Walls>::bytes}, stream,
                     &trip_kernel<Walls>, box, cut, from, to, of);
}

}  // namespace

cudaError_t prepare_trips(BoxArguments const& box) {
  return box.kinds != nullptr ? prepare<true>() : prepare<false>();
}
cudaError_t trip_between(BoxArguments const& box, ChipCut const& cut, float const* from, float* to,
                         Relaxation<float> const& of, cudaStream_t stream) {
  return box.kinds != nullptr ? launch<true>(box, cut, from, to, of, stream)
                              : launch<false>(box, cut, from, to, of, stream);
}

}  // namespace tessera::lattice_boltzmann
