// SPDX-License-Identifier: Apache-2.0
// Matrices on the GPU for tests and measurements: random operands, poison, plain products in fp32, errors.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "gpu/element_type.hpp"

namespace tessera::bench {

using gpu::ElementType;

/// Normal numbers of the given deviation, the same for the same seed.
void fill_random(void* matrix, std::size_t count, ElementType type, unsigned long long seed, float deviation,
                 cudaStream_t stream);

/// NaNs of both types: what is not written shows.
void poison(void* matrix, std::size_t count, cudaStream_t stream);

/// d[rows][columns] = a * b^T in fp32, without tensor cores.
void reference_gemm(void const* a, void const* b, float* d, int rows, int columns, int depth,
                    ElementType type, cudaStream_t stream);

enum class ReferenceActivation {
  none,
  gelu,            ///< of each sum, tanh form
  swiglu,          ///< silu(gate) * up of two sums side by side
  rounded_swiglu,  ///< the same of sums that are first rounded to the type
};

/// `count` results in fp32 (`h`) and rounded to the type (`rounded`). Either may be null.
void reference_activation(float const* sums, ReferenceActivation activation, std::size_t count, float* h,
                          void* rounded, ElementType type, cudaStream_t stream);

/// |got - reference| / |reference| over all elements; NaN if any is NaN. Waits for the stream.
double relative_error(void const* got, float const* reference, std::size_t count, ElementType type,
                      cudaStream_t stream);

/// Elements whose bits differ, or that are not as poison() left them; all of them if CUDA fails. Waits for
/// the stream.
unsigned long long differing(void const* one, void const* other, std::size_t count, cudaStream_t stream);
unsigned long long not_poisoned(void const* matrix, std::size_t count, cudaStream_t stream);

/// Bytes per second at which one kernel reads memory that is much larger than the L2 cache, the best of a few
/// rounds; 0 if CUDA fails.
double read_bandwidth(cudaStream_t stream);

}  // namespace tessera::bench
