// SPDX-License-Identifier: Apache-2.0
// The fixed tree inside a block.
#pragma once

namespace tessera::reduction {

/// Lane 0 has the sum of all lanes.
template <class T>
__device__ __forceinline__ T warp_sum(T value) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) value += __shfl_down_sync(0xffffffffu, value, step);
  return value;
}

/// Thread 0 has the sum of all threads; one barrier. `scratch` holds an element for each warp and is not used
/// by another call before a barrier.
template <int Threads, class T>
__device__ __forceinline__ T block_sum(T value, T* scratch) {
  constexpr int warps = Threads / 32;
  value = warp_sum(value);
  if constexpr (warps == 1) return value;
  unsigned const lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (lane == 0) scratch[warp] = value;
  __syncthreads();
  if (warp != 0) return value;
  value = lane < warps ? scratch[lane] : T(0);
#pragma unroll
  for (int step = warps / 2; step > 0; step /= 2) value += __shfl_down_sync(0xffffffffu, value, step);
  return value;
}

}  // namespace tessera::reduction
