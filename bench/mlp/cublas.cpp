// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstdlib>

#include "bench/common/program.hpp"
#include "bench/mlp/peers.hpp"
#include "kernels/cublaslt/gemm.hpp"

namespace tessera::bench {

struct CublasGemm::State {
  std::shared_ptr<cublaslt::LtGemm const> gemm;
  void* workspace = nullptr;
};

CublasGemm::CublasGemm(int rows, int columns, int depth, bool gelu, gemm_sm90::ElementType type)
    : state_(new State) {
  auto const made = cublaslt::LtGemm::make({rows, columns, depth, type, gelu});
  if (!made) {
    std::fprintf(stderr, "%s\n", to_text(made.error()).c_str());
    std::exit(1);
  }
  state_->gemm = *made;
  check(cudaMalloc(&state_->workspace, cublaslt::workspace_bytes), "cudaMalloc");
}

CublasGemm::~CublasGemm() { cudaFree(state_->workspace); }

int CublasGemm::algorithms() const { return static_cast<int>(state_->gemm->algorithms().size()); }

std::string CublasGemm::describe(int algorithm) const {
  return cublaslt::lt_name(state_->gemm->algorithms()[static_cast<std::size_t>(algorithm)]);
}

cudaError_t CublasGemm::run(int algorithm, void const* a, void const* b, void* d, cudaStream_t stream) const {
  return state_->gemm->run(state_->gemm->algorithms()[static_cast<std::size_t>(algorithm)], a, b, d,
                           state_->workspace, cublaslt::workspace_bytes, stream);
}

}  // namespace tessera::bench
