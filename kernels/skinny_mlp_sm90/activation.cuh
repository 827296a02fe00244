// SPDX-License-Identifier: Apache-2.0
// What happens to a hidden feature's sum.
#pragma once

namespace tessera::skinny_sm90 {

// Quotients to 2 ulp: one warp to a scheduler has nothing to hide an exact division behind.

/// tanh form: 0.5 (1 + tanh(u)) = 1 / (1 + exp(-2u)).
__device__ inline float gelu(float x) {
  float const u = 0.7978845608f * (x + 0.044715f * x * x * x);
  return __fdividef(x, 1 + __expf(-2 * u));
}
__device__ inline float silu(float x) { return __fdividef(x, 1 + __expf(-x)); }

}  // namespace tessera::skinny_sm90
