// SPDX-License-Identifier: Apache-2.0
// What cannot go on becomes an exception; what is expected to be said becomes text.
#pragma once

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "tessera/diagnostic.hpp"

namespace tessera::soak {

inline void must(cudaError_t error, char const* what) {
  if (error != cudaSuccess) throw std::runtime_error(fmt::format("{}: {}", what, cudaGetErrorString(error)));
}
inline void must(bool right, char const* what) {
  if (!right) throw std::runtime_error(what);
}
/// Empty: nothing was said.
inline std::string text_of(Expected<void> const& outcome) { return outcome ? "" : to_text(outcome.error()); }

template <class T>
std::shared_ptr<T> made(Expected<T>&& one) {
  if (!one) throw std::runtime_error(to_text(one.error()));
  return std::make_shared<T>(std::move(*one));
}

}  // namespace tessera::soak
