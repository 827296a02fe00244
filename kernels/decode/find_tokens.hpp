// SPDX-License-Identifier: Apache-2.0
// The launch behind a product that has made the logits: the most likely token of each sequence.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/decode/head.hpp"

namespace tessera::decode {

/// end.best becomes the largest key of each sequence's logits. Unless end.draws, the next step begins: its
/// tokens are stored, counted and embedded. `shifts`: added to the logits where they are first, [vocabulary];
/// null: nothing. end.arrived: a counter of each sequence here. The launch is programmatic, whatever the
/// kernel before.
cudaError_t find_tokens(StepEnd const& end, float const* shifts, int vocabulary, cudaStream_t stream);

}  // namespace tessera::decode
