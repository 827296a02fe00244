// SPDX-License-Identifier: Apache-2.0
// A kernel that takes an SM's place from a launch that needs them all.
#pragma once

#include <cuda_runtime_api.h>

namespace tessera::few_tokens {

/// Enqueues blocks that compute nothing for so long, with so much shared memory that each takes an SM and
/// nothing fits beside it. Their code has been loaded when this returns.
cudaError_t hold_sms(cudaStream_t stream, double seconds, int sms);
inline cudaError_t hold_an_sm(cudaStream_t stream, double seconds) { return hold_sms(stream, seconds, 1); }

}  // namespace tessera::few_tokens
