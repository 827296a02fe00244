// SPDX-License-Identifier: Apache-2.0
#include "measure/gpu/methods/sm_clock.hpp"

#include "measure/gpu/methods/device.hpp"
#include "measure/gpu/methods/device_clock.cuh"

namespace tessera::probe {
namespace {

__global__ void count_cycles(unsigned long long ns, double* ghz) {
  // Begins and ends at a step of the timer, so that a coarse step does no harm.
  auto const edge = [] {
    auto const before = global_ns();
    auto now = before;
    while (now == before) now = global_ns();
    return now;
  };
  auto const begin = edge();
  auto const first = cycles();
  spin_until_ns(begin + ns);
  auto const end = edge();
  auto const last = cycles();
  *ghz = static_cast<double>(last - first) / static_cast<double>(end - begin);
}

__global__ void spin(long long count) { spin_cycles(count); }

}  // namespace

double sm_clock_ghz(Context const& context) {
  DeviceBuffer<double> ghz(1);
  count_cycles<<<1, 1, 0, context.stream>>>(2'000'000, ghz.get());
  launched();
  return ghz.download().front();
}

void launch_spin(cudaStream_t stream, long long cycles, int blocks, int threads) {
  spin<<<blocks, threads, 0, stream>>>(cycles);
  launched();
}

}  // namespace tessera::probe
