// SPDX-License-Identifier: Apache-2.0
// The same by plain loops on the GPU, in fp32 without tensor cores: slow, simple, and independent of how the
// kernel is cut. What tests and measurements compare with where the host would take too long.
#pragma once

#include <cuda_runtime_api.h>

#include "problem.hpp"
#include "reference.hpp"

namespace tessera::attention_sm90 {

/// `out`: fp32, at the problem's strides. At most 12000 keys; rows that are turned are read as such.
cudaError_t plain_attention(Problem const& problem, void const* q, void const* k, void const* v, float* out,
                            Rounding rounding, cudaStream_t stream);

}  // namespace tessera::attention_sm90
