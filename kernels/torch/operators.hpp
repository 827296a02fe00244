// SPDX-License-Identifier: Apache-2.0
// The operators as torch calls them: arguments on a stack, which is where the result goes. A boxed function
// owns what is on the stack, also where it throws.
#pragma once

#include "shim.hpp"

namespace tessera::torch {

/// mlp(Tensor x, Tensor w_in, Tensor w_out, str form, *, bool early_weights=False) -> Tensor
void mlp(Value* stack, std::uint64_t arguments, std::uint64_t results);
/// mlp_out(Tensor x, Tensor w_in, Tensor w_out, Tensor(a!) out, str form, *, bool early_weights=False) -> ()
void mlp_out(Value* stack, std::uint64_t arguments, std::uint64_t results);

/// attention(Tensor q, Tensor k, Tensor v, *, bool causal=False, int window=0, float scale=0.0) -> Tensor
void attention(Value* stack, std::uint64_t arguments, std::uint64_t results);
/// attention_out(Tensor q, Tensor k, Tensor v, Tensor(a!) out, *, bool causal=False, int window=0, float
/// scale=0.0)
/// -> ()
void attention_out(Value* stack, std::uint64_t arguments, std::uint64_t results);

/// convolution_chain(Tensor x, Tensor[] filters, Tensor[] biases, *, int[] strides, int[] paddings, int[]
/// residuals, bool[] relus) -> Tensor
void convolution_chain(Value* stack, std::uint64_t arguments, std::uint64_t results);
/// convolution_chain_out(Tensor x, Tensor[] filters, Tensor[] biases, Tensor(a!) out, *, int[] strides, int[]
/// paddings, int[] residuals, bool[] relus) -> ()
void convolution_chain_out(Value* stack, std::uint64_t arguments, std::uint64_t results);

}  // namespace tessera::torch
