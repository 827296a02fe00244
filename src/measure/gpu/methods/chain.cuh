// SPDX-License-Identifier: Apache-2.0
// Costs inside an SM: a loop of dependent steps between two readings of the SM's clock, and the difference of
// two numbers of repetitions, so that the readings and the loop's start drop out.
#pragma once

#include "device.hpp"
#include "device_clock.cuh"
#include "measure/gpu/experiments.hpp"
#include "repeat.hpp"

namespace tessera::probe {

/// `value = step(value)`, `repeats` times, by the first `Lanes` lanes of every warp; `Unroll` steps a turn of
/// the loop: more can leave the instruction cache, fewer can show the loop. `Step` is made from nothing, by
/// the lanes that take part. A block writes the cycles of its slowest warp.
template <class Step, int Lanes, int Unroll>
__global__ void __launch_bounds__(1024) chain_kernel(int repeats, long long* block_cycles, unsigned* sink) {
  __syncthreads();
  if (threadIdx.x % 32 < Lanes) {
    Step step;
    unsigned value = threadIdx.x;
    for (int i = 0; i < 32; ++i) value = step(value);
    long long const begin = cycles();
#pragma unroll 1
    for (int i = 0; i < repeats; i += Unroll) {
#pragma unroll
      for (int j = 0; j < Unroll; ++j) value = step(value);
    }
    long long const end = cycles();
    if (value == 0x80000001u) *sink = value;
    if (threadIdx.x % 32 == 0)
      atomicMax(reinterpret_cast<unsigned long long*>(&block_cycles[blockIdx.x]),
                static_cast<unsigned long long>(end - begin));
  }
}

/// Cycles of one step with `blocks` blocks of `threads`; the slowest block counts. `few` and `many` are
/// multiples of `Unroll`.
template <class Step, int Lanes = 32, int Unroll = 16>
Cost chain_cycles(Context const& context, int blocks, int threads, int few, int many, int samples) {
  DeviceBuffer<long long> cycles(static_cast<std::size_t>(blocks));
  DeviceBuffer<unsigned> sink(1);
  return repeat_difference_of(few, many, samples, [&](int repeats) {
    cycles.fill(context.stream, 0);
    chain_kernel<Step, Lanes, Unroll>
        <<<blocks, threads, 0, context.stream>>>(repeats, cycles.get(), sink.get());
    launched();
    long long slowest = 0;
    for (long long one : cycles.download()) slowest = one > slowest ? one : slowest;
    return static_cast<double>(slowest);
  });
}

/// Blocks of the chain's kernel that an SM holds.
template <class Step, int Lanes = 32, int Unroll = 16>
int chain_blocks_per_sm(int threads) {
  int blocks = 0;
  ok(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, chain_kernel<Step, Lanes, Unroll>, threads, 0));
  return blocks;
}

}  // namespace tessera::probe
