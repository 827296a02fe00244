// SPDX-License-Identifier: Apache-2.0
// How fast memory can be read at all: kernels that only read.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>
#include <vector>

namespace tessera::bench {

struct Reader {
  std::string name;
  void const* function;  ///< (float const* x, std::size_t count, unsigned* out)
  int threads;
  int shared_bytes;
  int blocks_per_sm;  ///< in the grid, not at once
};
std::vector<Reader> readers();

cudaError_t read(Reader const& reader, int sms, float const* x, std::size_t count, unsigned* out,
                 cudaStream_t stream);

}  // namespace tessera::bench
