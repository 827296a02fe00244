// SPDX-License-Identifier: Apache-2.0
// What an MLP's result is compared with.
#pragma once

#include "mlp_problem.hpp"
#include "src/bench/matrices.hpp"

namespace tessera::mlp {

/// h and y in fp32 without tensor cores, from x, w1 and w2. buffers.h gets h rounded to the type, which y is
/// made from, as kernels do; buffers.y is not used. `rounds_gate_up`: gate and up are rounded to the type
/// before the activation, as kernels without a gated epilogue do. `sums` holds tokens * hidden floats
/// (swiglu: twice as many); `h` may be null.
inline void reference_mlp(Shape const& shape, Buffers const& buffers, float* sums, float* h, float* y,
                          bool rounds_gate_up, cudaStream_t stream) {
  using bench::ReferenceActivation;
  bool const gated = shape.form == Form::swiglu;
  auto const activation = !gated           ? ReferenceActivation::gelu
                          : rounds_gate_up ? ReferenceActivation::rounded_swiglu
                                           : ReferenceActivation::swiglu;
  bench::reference_gemm(buffers.x, buffers.w1, sums, shape.tokens, gated ? 2 * shape.hidden : shape.hidden,
                        shape.model, shape.type, stream);
  bench::reference_activation(sums, activation,
                              static_cast<std::size_t>(shape.tokens) * static_cast<std::size_t>(shape.hidden),
                              h, buffers.h, shape.type, stream);
  bench::reference_gemm(buffers.h, buffers.w2, y, shape.tokens, shape.model, shape.hidden, shape.type,
                        stream);
}

}  // namespace tessera::mlp
