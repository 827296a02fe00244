// SPDX-License-Identifier: Apache-2.0
// The MLP that several kernels compute, each for the sizes it is good at: what they agree on.
#pragma once

#include "src/gpu/element_type.hpp"

namespace tessera::mlp {

using gpu::ElementType;

enum class Form {
  gelu,    ///< h = gelu(x * w1^T)
  swiglu,  ///< h = silu(x * gate^T) . (x * up^T); w1 holds both, see Buffers
};

/// y = h * w2^T, with h as the form says. GeLU is the tanh approximation.
struct Shape {
  int tokens = 0;
  int model = 0;   ///< columns of x and y; a multiple of 8
  int hidden = 0;  ///< columns of h; a multiple of 8
  Form form = Form::gelu;
  ElementType type = ElementType::bf16;
};

/// Device memory, all row-major, each matrix 16-byte aligned:
/// x[tokens][model], h[tokens][hidden], w2[model][hidden], y[tokens][model], and
/// w1[hidden][model] (gelu) or w1[2 * hidden][model] (swiglu) with gate f in row 2 * f and up f in row
/// 2 * f + 1, so that any range of hidden features is one range of rows, and an epilogue finds a gate and
/// its up side by side.
struct Buffers {
  void const* x = nullptr;
  void const* w1 = nullptr;
  void* h = nullptr;
  void const* w2 = nullptr;
  void* y = nullptr;
};

}  // namespace tessera::mlp
