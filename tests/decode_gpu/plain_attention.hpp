// SPDX-License-Identifier: Apache-2.0
// Attention by the simplest kernel that computes it, in the place of the fast one: what is wrong with a pass
// over prompts shows whatever is wrong with that.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/attention_sm90/problem.hpp"

namespace tessera::decode {

/// Heads of up to 256; offsets of queries and keys are given, and no lengths, no dropping and no turned keys.
Expected<void> plain_attention(attention_sm90::Problem const& problem, void const* q, void const* k,
                               void const* v, void* out, cudaStream_t stream);

}  // namespace tessera::decode
