// SPDX-License-Identifier: Apache-2.0
// For tests and benchmarks on the GPU: random inputs, poison, a plain reference, an error, and the floor.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernels/mlp/problem.hpp"

namespace tessera::skinny_sm90 {

/// Uniform numbers of the given deviation, the same for the same seed.
void fill_random(mlp::ElementType type, void* to, std::size_t count, unsigned long long seed, float deviation,
                 cudaStream_t stream);

/// Fills with NaNs: what is not written shows.
void poison(void* elements, std::size_t count, cudaStream_t stream);
/// How many elements are not as poison() left them. Waits for the stream.
unsigned long long not_poisoned(void const* elements, std::size_t count, cudaStream_t stream);
/// Elements whose bits differ. Waits for the stream.
unsigned long long differing(void const* one, void const* other, std::size_t count, cudaStream_t stream);

/// y in fp32, without tensor cores; h is rounded to the type, as the kernels do. `h` holds tokens * hidden
/// elements, `sums` tokens * (2 * hidden) floats.
void reference_mlp(mlp::Shape const& shape, mlp::Buffers const& buffers, float* sums, float* y,
                   cudaStream_t stream);

/// |got - reference| / |reference| over all elements; NaN if any is NaN. Waits for the stream.
double relative_error(mlp::ElementType type, void const* got, float const* reference, std::size_t count,
                      cudaStream_t stream);

/// h = silu(gate) * up of pairs of neighbours: what a library without a gated epilogue launches between
/// its products.
void gate(mlp::ElementType type, void const* pairs, void* h, std::size_t count, cudaStream_t stream);

/// Reads memory as fast as the GPU can and does nothing with it: bulk copies into rings in shared memory.
cudaError_t stream_through(void const* memory, std::size_t bytes, int blocks, cudaStream_t stream);

}  // namespace tessera::skinny_sm90
