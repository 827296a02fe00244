// SPDX-License-Identifier: Apache-2.0
#include "launch_kernels.hpp"
#include "tessera/sync.cuh"

namespace tessera::launching {
namespace {

__global__ void work_and_write(unsigned* word, unsigned value, Times* times) {
  pdl_trigger();
  auto const begin = GlobalTimer::now();
  while (GlobalTimer::now() - begin < 50'000) {
  }
  *word = value;
  times->first_ended = GlobalTimer::now();
}

__global__ void wait_and_read(unsigned const* word, unsigned value, unsigned* wrong, Times* times) {
  times->second_started = GlobalTimer::now();
  pdl_wait();
  if (*word != value) ++*wrong;
}

}  // namespace

First first() { return work_and_write; }
Second second() { return wait_and_read; }

}  // namespace tessera::launching
