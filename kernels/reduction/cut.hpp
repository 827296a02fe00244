// SPDX-License-Identifier: Apache-2.0
// An array cut into vectors of 16 bytes and what is left over at its ends.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace tessera::reduction {

/// The input as vectors, with what is before and behind them. Made on the host: a small sum is all latency.
struct Cut {
  uint4 const* vectors = nullptr;
  std::size_t count = 0;       ///< of vectors
  unsigned count_cut_off = 0;  ///< the same, but at most k_many
  unsigned before = 0;         ///< elements before the vectors
  unsigned edges = 0;          ///< elements before and behind them
  void const* first = nullptr;
  void const* last = nullptr;  ///< first element behind them

  /// More vectors than the threads of a grid have in flight together.
  static constexpr unsigned k_many = 0x40000000u;

  Cut() = default;
  __host__ __device__ Cut(void const* x, std::size_t elements, unsigned size) {
    unsigned const per = 16 / size;
    auto const address = reinterpret_cast<std::uintptr_t>(x);
    std::size_t const head = (16 - address % 16) % 16 / size;
    before = static_cast<unsigned>(head < elements ? head : elements);
    count = (elements - before) / per;
    count_cut_off = count < k_many ? static_cast<unsigned>(count) : k_many;
    edges = static_cast<unsigned>(elements - count * per);
    first = x;
    vectors = reinterpret_cast<uint4 const*>(address + static_cast<std::size_t>(before) * size);
    last = vectors + count;
  }
};

}  // namespace tessera::reduction
