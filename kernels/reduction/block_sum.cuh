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

/// Thread 0 has the sum of all threads; one barrier. `scratch` holds an element for each warp, begins at a
/// multiple of 16 bytes, and is not used by another call before a barrier. In the end one thread adds up: a
/// few wide loads and additions take half as long as shuffles.
template <int Threads, class T>
__device__ __forceinline__ T block_sum(T value, T* scratch) {
  constexpr int warps = Threads / 32;
  value = warp_sum(value);
  if constexpr (warps == 1) return value;
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
  __syncthreads();
  if (threadIdx.x != 0) return value;
  T of_warps[warps];
#pragma unroll
  for (int i = 0; i < warps; ++i) of_warps[i] = scratch[i];
#pragma unroll
  for (int half = warps / 2; half > 0; half /= 2)
#pragma unroll
    for (int i = 0; i < half; ++i) of_warps[i] += of_warps[i + half];
  return of_warps[0];
}

}  // namespace tessera::reduction
