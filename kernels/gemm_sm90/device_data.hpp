// SPDX-License-Identifier: Apache-2.0
// What tests and benchmarks of GEMMs need on the GPU: random inputs, poison, a plain reference, an error.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace tessera::gemm_sm90 {

/// Fills with normal numbers of the given deviation, the same for the same seed.
void fill_random(void* bf16, std::size_t count, unsigned long long seed, float deviation,
                 cudaStream_t stream);

/// Fills with NaNs: what is not written shows.
void poison(void* bf16, std::size_t count, cudaStream_t stream);

/// d = a * b^T in fp32 without tensor cores, then GeLU (tanh form) in fp32 if asked for.
void reference_gemm(void const* a, void const* b, float* d, int rows, int columns, int depth, bool gelu,
                    cudaStream_t stream);

void round_to_bf16(float const* from, void* bf16, std::size_t count, cudaStream_t stream);

/// |got - reference| / |reference| over all elements; NaN if any is NaN. Waits for the stream.
double relative_error(void const* bf16, float const* reference, std::size_t count, cudaStream_t stream);

/// Elements whose bits differ. Waits for the stream.
unsigned long long differing(void const* bf16, void const* other, std::size_t count, cudaStream_t stream);

}  // namespace tessera::gemm_sm90
