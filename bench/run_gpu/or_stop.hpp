// SPDX-License-Identifier: Apache-2.0
// For the benchmark alone: a failure ends the program with what went wrong; host time of some work.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <utility>

#include "tessera/diagnostic.hpp"

namespace tessera::run_bench {

template <class T>
T or_stop(Expected<T> value) {
  if (value) return std::move(*value);
  std::cerr << to_text(value.error()) << "\n";
  std::exit(1);
}
inline void or_stop(Expected<void> const& value) {
  if (value) return;
  std::cerr << to_text(value.error()) << "\n";
  std::exit(1);
}
inline void or_stop(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::cerr << cudaGetErrorString(error) << "\n";
  std::exit(1);
}

template <class Work>
double host_us(Work work) {
  auto const start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace tessera::run_bench
