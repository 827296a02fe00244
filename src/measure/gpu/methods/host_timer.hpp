// SPDX-License-Identifier: Apache-2.0
// How long work on a stream takes, by the host's clock; gpu/event_timer.hpp has the GPU's.
#pragma once

#include <chrono>

#include "device.hpp"

namespace tessera::probe {

inline double host_now_ns() {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// From before `submit()` until the stream is empty: launch and completion are part of it.
template <class Submit>
double host_ns(cudaStream_t stream, Submit submit) {
  ok(cudaStreamSynchronize(stream));
  double const begin = host_now_ns();
  submit();
  ok(cudaStreamSynchronize(stream));
  return host_now_ns() - begin;
}

}  // namespace tessera::probe
