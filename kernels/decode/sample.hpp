// SPDX-License-Identifier: Apache-2.0
// The launch behind the head that draws the next tokens.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/decode/draw.hpp"
#include "kernels/decode/head.hpp"

namespace tessera::decode {

/// Sampling, for the GPU.
struct Draws {
  float scale = 1;  ///< logit_scale()
  int top_k = 0;    ///< 0: all
  double top_p = 1;
  Amount seed = 0;
  int vocabulary = 0;
};
Draws draws_of(Sampling const& sampling, int vocabulary);

/// Before the first sample() on a device: allows the shared memory that it takes, and loads the kernel, which
/// is not to happen while a stream is captured.
cudaError_t load_sample();

/// Draws a token of each sequence from StepEnd::logits, and begins the next step. `best` is what the head has
/// left there: the largest key. Where the largest logit is not finite, that token is taken, and said.
cudaError_t sample(StepEnd const& end, Draws const& draws, cudaStream_t stream);

}  // namespace tessera::decode
