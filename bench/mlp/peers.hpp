// SPDX-License-Identifier: Apache-2.0
// What Tessera is measured against.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/gemm_sm90/gemm.hpp"

namespace tessera::bench {

/// CUTLASS without Tessera, in the same shapes.
std::vector<gemm_sm90::Kernel> const& stock_kernels();

/// CUTLASS's Stream-K. A size must have run once before it can be captured: its workspace is allocated then.
gemm_sm90::Kernel stock_stream_k();

/// One GEMM in cuBLASLt with all the algorithms that its heuristics offer, the GeLU fused.
class CublasGemm {
 public:
  CublasGemm(int rows, int columns, int depth, bool gelu,
             gemm_sm90::ElementType type = gemm_sm90::ElementType::bf16);
  ~CublasGemm();
  CublasGemm(CublasGemm const&) = delete;
  CublasGemm& operator=(CublasGemm const&) = delete;

  int algorithms() const;
  std::string describe(int algorithm) const;
  cudaError_t run(int algorithm, void const* a, void const* b, void* d, cudaStream_t stream) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::bench
