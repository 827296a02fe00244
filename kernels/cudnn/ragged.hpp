// SPDX-License-Identifier: Apache-2.0
// Lengths and places of prompts of unequal length, as cuDNN asks for them.
#pragma once

#include <cuda_runtime_api.h>

namespace tessera::cudnn {

/// Device memory; places are in elements: offsets times a row's elements.
struct Ragged {
  int* lengths;                        ///< [sequences]
  int *queries, *keys, *values, *out;  ///< [sequences + 1]
};
struct RowElements {
  int queries, keys, values, out;
};

/// `offsets`: [sequences + 1] rows, in device memory.
cudaError_t find_ragged(int const* offsets, int sequences, RowElements const& of_row, Ragged const& to,
                        cudaStream_t stream);

}  // namespace tessera::cudnn
