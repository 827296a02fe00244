// SPDX-License-Identifier: Apache-2.0
// A convolution without tensor cores, on a GPU: what reference_layer() computes, not rounded.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/convolution/problem.hpp"

namespace tessera::convolution {

/// `sums`: as many floats as the layer's result has elements. `bias` and `residual` may be null.
cudaError_t plain_convolution(LayerChain const& chain, std::size_t layer, void const* input,
                              void const* filter, void const* bias, void const* residual, float* sums,
                              cudaStream_t stream);

}  // namespace tessera::convolution
