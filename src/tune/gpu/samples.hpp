// SPDX-License-Identifier: Apache-2.0
// Launches as the timer takes them.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

#include "bench/timer.hpp"
#include "tessera/tune/tune.hpp"

namespace tessera {

constexpr double sample_us = 600;

/// Launches of one sample: enough that its start and end do not count, and a multiple of the sets.
inline int pieces_of_a_sample(Subject const& subject) {
  return (static_cast<int>(sample_us / (subject.about_us * subject.sets)) + 1) * subject.sets;
}

/// Keeps what it launches alive.
inline std::function<cudaError_t(cudaStream_t, int)> work_of(Launchable const& launchable) {
  return [launch = launchable.launch](cudaStream_t stream, int set) {
    return static_cast<cudaError_t>(launch(stream, set));
  };
}

}  // namespace tessera
