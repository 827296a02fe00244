// SPDX-License-Identifier: Apache-2.0
// Products of a layer by cuBLASLt, and which of the library's algorithms computes each.
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

#include "kernels/cublaslt/gemm.hpp"

namespace tessera::decode {

/// Arrays of a product, in device memory.
struct ProductOperands {
  void const* input = nullptr;    ///< [rows][depth]
  void const* weights = nullptr;  ///< [columns][depth]
  void* to = nullptr;             ///< [rows][columns]; of a wide product in fp32
  void* workspace = nullptr;      ///< cublaslt::workspace_bytes
  bool adds = false;              ///< a wide product is added to what is there
};

/// to = input * weights^T, or to += input * weights^T: by the algorithm that the library
/// guesses first, or, if `timed`, by the one that time_algorithms() has found, where it has. E0533, or CUDA's
/// error (E0511).
Expected<void> multiply(cublaslt::LtProblem const& problem, ProductOperands const& operands, bool timed,
                        cudaStream_t stream);

/// Finds the fastest algorithm for a product on this device, once in a process. `sets` are operands of the
/// same sizes in turns, so that weights come from memory; what they point to is written. Products of an
/// algorithm are timed in a graph, as steps run them. Waits for the stream. One that is less than 2 % faster
/// than the first guess is not taken.
Expected<void> time_algorithms(cublaslt::LtProblem const& problem, std::vector<ProductOperands> const& sets,
                               cudaStream_t stream);

}  // namespace tessera::decode
