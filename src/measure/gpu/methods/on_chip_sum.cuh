// SPDX-License-Identifier: Apache-2.0
// Sums of doubles that lie in shared memory, by one block, again and again: each repetition begins where the
// result of the one before is known.
#pragma once

#include "device.hpp"
#include "device_clock.cuh"
#include "measure/gpu/experiments.hpp"
#include "repeat.hpp"

namespace tessera::probe {

struct OnChipResult {
  double total = 0;
  unsigned long long cycles = 0;  ///< of the slowest warp
};

/// Zero, known only when `total` is: the sign of a number that is not negative.
__device__ inline int zero_after(double total) {
  return static_cast<int>(static_cast<unsigned>(__double2hiint(total)) >> 31);
}

/// `sum(box, elements, zero, repeat)` is called by all threads; what it returns in thread 0 is the result,
/// and what it returns in a thread is what that thread's next repetition waits for. The first `elements`
/// doubles of dynamic shared memory are the input.
template <class Sum>
__global__ void __launch_bounds__(1024)
    on_chip_kernel(double const* data, int elements, int repeats, OnChipResult* result) {
  extern __shared__ double box[];
  for (int i = static_cast<int>(threadIdx.x); i < elements; i += static_cast<int>(blockDim.x))
    box[i] = data[i];
  __syncthreads();
  Sum sum;
  double total = sum(box, elements, 0, 0);
  __syncthreads();
  long long const begin = cycles();
#pragma unroll 1
  for (int r = 1; r <= repeats; ++r) total = sum(box, elements, zero_after(total), r);
  // The clock is not read before the last result is known.
  long long const end = cycles() + zero_after(total);
  if (threadIdx.x == 0) result->total = total;
  if (threadIdx.x % 32 == 0) atomicMax(&result->cycles, static_cast<unsigned long long>(end - begin));
}

struct OnChipCost {
  Cost cycles;         ///< of one repetition
  bool right = false;  ///< the last result of every run was the sum
};

/// `data` holds at least `elements` numbers that are not negative and of which every sum is exact.
template <class Sum>
OnChipCost on_chip_cycles(Context const& context, DeviceBuffer<double> const& data,
                          std::vector<double> const& host, int elements, int threads, int few, int many,
                          int samples) {
  std::size_t const shared = static_cast<std::size_t>(elements) * sizeof(double);
  allow_shared(on_chip_kernel<Sum>, 200 * 1024);
  double expected = 0;
  for (int i = 0; i < elements; ++i) expected += host[static_cast<std::size_t>(i)];
  DeviceBuffer<OnChipResult> result(1);
  launched();
  OnChipCost cost;
  cost.right = true;
  cost.cycles = repeat_difference_of(few, many, samples, [&](int repeats) {
    result.fill(context.stream, 0);
    on_chip_kernel<Sum><<<1, threads, shared, context.stream>>>(data.get(), elements, repeats, result.get());
    auto const started = cudaGetLastError();
    if (started != cudaSuccess)
      throw std::runtime_error("on-chip sum of " + std::to_string(elements) + " by " +
                               std::to_string(threads) + ": " + cudaGetErrorString(started));
    auto const got = result.download().front();
    cost.right = cost.right && got.total == expected;
    return static_cast<double>(got.cycles);
  });
  return cost;
}

}  // namespace tessera::probe
