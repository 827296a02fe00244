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
  int const columns = tile.columns(), cells = tile.cells();
  for (int c = static_cast<int>(threadIdx.x); c < columns; c += k_trip_threads)
    places[c] = tile.place(cut, c);
  for (int n = static_cast<int>(threadIdx.x); n < cells; n += k_trip_threads)
    columns_of[n] = static_cast<unsigned short>(tile.column_of(n));
  __syncthreads();
  behind_the_step_before();
  int const warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  for (int k = 0; k < tile.turns(); ++k) {
    // Tasks of 32 cells, first steps and second ones by turns: memory and arithmetic are busy together.
    int const firsts = tile.has_first(k) ? (columns + 31) / 32 : 0;
    int const seconds = tile.has_second(k) ? (cells + 31) / 32 : 0;
    int const paired = firsts < seconds ? firsts : seconds;
    auto const made = Middle<Walls>::own(k);
    auto const taken = Middle<Walls>::reaching(k - 2), own = Middle<Walls>::own(k - 2);
    int const z = tile.plane(cut, k), behind = tile.plane(cut, k - 2);
#pragma unroll 1
    for (int t = warp; t < firsts + seconds; t += k_trip_threads / 32) {
      bool const first = t < 2 * paired ? t % 2 == 0 : firsts > seconds;
      int const n = 32 * (t < 2 * paired ? t / 2 : t - paired) + lane;
      if (first) {
        if (n < columns)
          first_of_trip<Walls>(box, cell_at(box, places[n], z), from, of, made, tessera_trip, n);
      } else if (n < cells) {
        int const c = columns_of[n];
        second_of_trip<Walls>(box, cell_at(box, places[c], behind), taken, own, tessera_trip, c, tile.pitch,
                              of, to);
      }
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
                              k_trip_shared_percent);
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
