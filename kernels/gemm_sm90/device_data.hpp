// SPDX-License-Identifier: Apache-2.0
// What tests and benchmarks of GEMMs need on the GPU: random inputs, poison, a plain reference, an error.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernels/mlp/problem.hpp"

namespace tessera::gemm_sm90 {

using mlp::ElementType;

/// Fills with normal numbers of the given deviation, the same for the same seed.
void fill_random(void* to, std::size_t count, unsigned long long seed, float deviation, cudaStream_t stream,
                 ElementType type = ElementType::bf16);

/// Fills with NaNs (of both types): what is not written shows.
void poison(void* to, std::size_t count, cudaStream_t stream);

/// d = a * b^T in fp32 without tensor cores, then GeLU (tanh form) in fp32 if asked for.
void reference_gemm(void const* a, void const* b, float* d, int rows, int columns, int depth, bool gelu,
                    cudaStream_t stream, ElementType type = ElementType::bf16);

/// to[i] = silu(sums[2i]) * sums[2i + 1], for `count` i.
void reference_gate(float const* sums, float* to, std::size_t count, cudaStream_t stream);

void round_to(ElementType type, float const* from, void* to, std::size_t count, cudaStream_t stream);
inline void round_to_bf16(float const* from, void* to, std::size_t count, cudaStream_t stream) {
  round_to(ElementType::bf16, from, to, count, stream);
}

/// |got - reference| / |reference| over all elements; NaN if any is NaN. Waits for the stream.
double relative_error(void const* got, float const* reference, std::size_t count, cudaStream_t stream,
                      ElementType type = ElementType::bf16);

/// Elements whose bits differ. Waits for the stream.
unsigned long long differing(void const* one, void const* other, std::size_t count, cudaStream_t stream);

}  // namespace tessera::gemm_sm90
