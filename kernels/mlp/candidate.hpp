// SPDX-License-Identifier: Apache-2.0
// One way to compute an MLP of one shape.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <string>
#include <tessera/sync.cuh>

#include "kernels/common/mlp_problem.hpp"

namespace tessera::mlp {

/// Device memory that a launch uses beside its operands. One launch at a time.
struct Workspace {
  void* gate_up = nullptr;                 ///< [tokens][2 * hidden], for candidates that need it
  void* library = nullptr;                 ///< cuBLASLt's or partial sums, library_bytes of it
  unsigned long long* counters = nullptr;  ///< the candidate's counter_words for this shape, zeroed once
  StallRecord* stall = nullptr;            ///< zeroed once; says which wait gave up
};

constexpr std::size_t library_bytes = 64u << 20;

enum class Source {
  cublaslt,   ///< both GEMMs by cuBLASLt, in stream order: the baseline
  gemm_sm90,  ///< both by kernels/gemm_sm90
  mixed,      ///< one of each
  skinny,     ///< both in one persistent launch, for few tokens
};

/// A value; it holds no device memory. What it launches was loaded when it was made.
struct Candidate {
  std::string name;  ///< of the same kernels for any shape: what a tuning cache stores
  Source source = Source::cublaslt;
  bool needs_gate_up = false;   ///< it uses Workspace::gate_up
  bool rounds_gate_up = false;  ///< gate and up are rounded to the element type before the activation
  long long counter_words = 0;
  /// Capturable, and a replayed graph needs nothing reset.
  std::function<cudaError_t(Buffers const&, Workspace const&, cudaStream_t)> launch;

  bool is_baseline() const { return source == Source::cublaslt; }
};

}  // namespace tessera::mlp
