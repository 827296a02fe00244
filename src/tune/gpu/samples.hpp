// SPDX-License-Identifier: Apache-2.0
// Launches as the timer takes them.
#pragma once

#include <cuda_runtime_api.h>

#include <fmt/format.h>

#include <functional>
#include <utility>
#include <vector>

#include "bench/timer.hpp"
#include "run/gpu/cuda_call.hpp"
#include "tessera/tune/tune.hpp"

namespace tessera {

constexpr double sample_us = 600;

/// Launches of one sample: enough that its start and end do not count, and a multiple of the sets.
inline int pieces_of_a_sample(Subject const& subject) {
  return (static_cast<int>(sample_us / (subject.about_us * subject.sets)) + 1) * subject.sets;
}

/// E0511 for a CUDA error, E0521 where what was launched did not end.
inline Expected<void> fine(bench::Timer const& timer) {
  if (timer.error() != cudaErrorLaunchTimeout) return run::check_call(timer.error(), "measuring");
  Diagnostic d;
  d.code = "E0521";
  d.message = fmt::format("what is measured has not ended for {:.3g} s", bench::Timer::longest_wait_s);
  d.notes = {"no wait met its deadline, so a kernel computes for long, or waits without a watch"};
  d.suggestion = "let TuneOptions::progress print what is tried: the last plan hangs; the process must end";
  return refuse(std::move(d));
}

/// Keeps for ever what a GPU that does not come back still uses: to free its memory would wait for the
/// kernels.
inline void abandon(std::vector<Launchable> launched) {
  (void)new std::vector<Launchable>(std::move(launched));  // NOLINT: nothing may free it
}

/// Keeps what it launches alive.
inline std::function<cudaError_t(cudaStream_t, int)> work_of(Launchable const& launchable) {
  return [launch = launchable.launch](cudaStream_t stream, int set) {
    return static_cast<cudaError_t>(launch(stream, set));
  };
}

}  // namespace tessera
