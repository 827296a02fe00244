// SPDX-License-Identifier: Apache-2.0
// What a result is compared with: random inputs, poison, and plain arithmetic in fp32.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernels/mlp/problem.hpp"

namespace tessera::mlp {

/// Normal numbers of the given deviation, the same for the same seed.
void fill_random(void* matrix, std::size_t count, ElementType type, unsigned long long seed, float deviation,
                 cudaStream_t stream);

/// NaNs: what is not written shows.
void poison(void* matrix, std::size_t count, cudaStream_t stream);

/// d[rows][columns] = a * b^T in fp32, without tensor cores.
void reference_gemm(void const* a, void const* b, float* d, int rows, int columns, int depth,
                    ElementType type, cudaStream_t stream);

/// h[tokens][hidden] from what the first GEMM's reference gave: `wide` has `hidden` columns (gelu) or
/// 2 * hidden (swiglu), which are first rounded to the type if `rounds`.
void reference_activation(float const* wide, float* h, int tokens, int hidden, Form form, ElementType type,
                          bool rounds, cudaStream_t stream);

void round_to(float const* from, void* matrix, std::size_t count, ElementType type, cudaStream_t stream);

/// |got - reference| / |reference| over all elements; NaN if any is NaN. Waits for the stream.
double relative_error(void const* got, float const* reference, std::size_t count, ElementType type,
                      cudaStream_t stream);

/// Reads it all, with 16-byte loads.
void read_all(void const* memory, std::size_t bytes, unsigned* sink, cudaStream_t stream);

}  // namespace tessera::mlp
