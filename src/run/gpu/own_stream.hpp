// SPDX-License-Identifier: Apache-2.0
// A stream for copies and captures, which end before whoever asks for it returns.
#pragma once

#include "run/gpu/cuda_call.hpp"

namespace tessera::run {

/// Of this thread and the current context; made when it is first asked for. The caller's own stream may be
/// captured, and the default one waits for it then. Not one for each chain: idle streams are not free.
Expected<cudaStream_t> own_stream();

}  // namespace tessera::run
