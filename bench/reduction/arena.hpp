// SPDX-License-Identifier: Apache-2.0
// Memory for the benchmark: random elements, what fills the L2 with something else, and a reference sum.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace tessera::bench {

struct Arena {
  float* x = nullptr;
  std::size_t count = 0;  ///< elements: uniform in [0, 1), so that nothing cancels
  cudaStream_t stream = nullptr;

  explicit Arena(std::size_t elements);
  /// Puts other lines into the whole L2.
  void flush() const;
  /// In double precision.
  double reference(float const* from, std::size_t elements) const;

 private:
  void* other_ = nullptr;
  double* sums_ = nullptr;
};

/// A kernel that does nothing.
void launch_empty(cudaStream_t stream);

}  // namespace tessera::bench
