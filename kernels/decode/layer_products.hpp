// SPDX-License-Identifier: Apache-2.0
// Products of a layer, by cuBLASLt or by our kernel for few rows, and which of the ways computes each.
#pragma once

#include <cuda_runtime_api.h>

#include <optional>
#include <variant>
#include <vector>

#include "kernels/cublaslt/gemm.hpp"
#include "kernels/decode/layer_plan.hpp"
#include "kernels/skinny_gemm_sm90/skinny_gemm.hpp"

namespace tessera::decode {

/// input * weights^T, of any number of rows.
using LaunchedProduct = skinny_gemm::Problem;
using skinny_gemm::Result;
/// The same for the library, which leaves SwiGLU and GeLU to another launch.
cublaslt::LtProblem library_problem(LaunchedProduct const& product);

/// Arrays of a product, in device memory.
struct ProductOperands {
  void const* input = nullptr;    ///< [rows][depth]
  void const* weights = nullptr;  ///< [columns][depth]
  void* to = nullptr;             ///< [rows][columns], bf16 or fp32 as the result says
  void* workspace = nullptr;      ///< cublaslt::workspace_bytes
  void* gated = nullptr;          ///< [rows][columns / 2], of a gated product
  /// For fastest_ways(): [rows][depth] of fp32, whose norm `input` is, where that takes a launch; null:
  /// nothing.
  float* stream = nullptr;
  /// Of our kernel alone, where is_ours(): skinny_gemm::Operands says what they are.
  skinny_gemm::InputNorm norm = {};
  float const* shift = nullptr;
  void* rounded = nullptr;
  float* squares = nullptr;
};

/// How a product is computed: by the library, or by our kernel. Ours begins before the launch before it is
/// complete, lets the next one begin when that is complete and not before, does GeLU, and writes a gated
/// product's SwiGLU to `gated`, and nothing to `to`.
using Way = std::variant<cublaslt::LtAlgorithm, skinny_gemm::Config>;
/// Nothing: the library's first guess.
using MaybeWay = std::optional<Way>;
inline bool is_ours(MaybeWay const& way) { return way && std::holds_alternative<skinny_gemm::Config>(*way); }

/// Enqueues a product. E0533: the library has none, or CUDA's error (E0511).
Expected<void> multiply(LaunchedProduct const& product, ProductOperands const& operands, MaybeWay const& way,
                        cudaStream_t stream);

/// The fastest ways for a product on this device, the fastest one first, up to eight that take 1.3 times as
/// long at most and are all ours or all the library's, found once in a process: among the library's
/// algorithms, our kernel's ways to cut it, or both. `sets` are operands of the same sizes in turns, so that
/// weights come from memory; what they point to is written. Products are timed in a graph, as steps run them,
/// with their SwiGLU or GeLU, with the norm before them unless ours does it, and the library's with the norm
/// behind that ours leaves. Waits for the stream. A way that is less than 2 % faster than the library's first
/// guess is behind it.
Expected<std::vector<Way>> fastest_ways(LaunchedProduct const& product,
                                        std::vector<ProductOperands> const& sets, ProductsOf among,
                                        cudaStream_t stream);

}  // namespace tessera::decode
