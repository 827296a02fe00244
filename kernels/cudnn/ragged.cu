// SPDX-License-Identifier: Apache-2.0
#include "kernels/cudnn/ragged.hpp"

namespace tessera::cudnn {
namespace {

__global__ void ragged(int const* offsets, int sequences, RowElements const of_row, Ragged const to) {
  for (int i = static_cast<int>(threadIdx.x); i <= sequences; i += static_cast<int>(blockDim.x)) {
    int const begin = offsets[i];
    if (i < sequences) to.lengths[i] = offsets[i + 1] - begin;
    to.queries[i] = begin * of_row.queries;
    to.keys[i] = begin * of_row.keys;
    to.values[i] = begin * of_row.values;
    to.out[i] = begin * of_row.out;
  }
}

}  // namespace

cudaError_t find_ragged(int const* offsets, int sequences, RowElements const& of_row, Ragged const& to,
                        cudaStream_t stream) {
  ragged<<<1, 128, 0, stream>>>(offsets, sequences, of_row, to);
  return cudaGetLastError();
}

}  // namespace tessera::cudnn
