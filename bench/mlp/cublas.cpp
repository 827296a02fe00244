// SPDX-License-Identifier: Apache-2.0
#include <cublasLt.h>

#include <cstdio>
#include <cstdlib>

#include "bench/mlp/peers.hpp"

namespace tessera::bench {
namespace {

constexpr std::size_t workspace_bytes = 64u << 20;
constexpr int most_algorithms = 16;

void check(cublasStatus_t status) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  std::fprintf(stderr, "cublasLt: %s\n", cublasLtGetStatusString(status));
  std::exit(1);
}

cublasLtHandle_t handle() {
  static cublasLtHandle_t const one = [] {
    cublasLtHandle_t made;
    check(cublasLtCreate(&made));
    return made;
  }();
  return one;
}

void* workspace() {
  static void* const memory = [] {
    void* made = nullptr;
    if (cudaError_t const error = cudaMalloc(&made, workspace_bytes); error != cudaSuccess) {
      std::fprintf(stderr, "cublasLt's workspace: %s\n", cudaGetErrorString(error));
      std::exit(1);
    }
    return made;
  }();
  return memory;
}

}  // namespace

// Row-major d = a * b^T is column-major d^T = b * a^T: cuBLAS's first operand is b, transposed.
struct CublasGemm::State {
  cublasLtMatmulDesc_t product;
  cublasLtMatrixLayout_t a, b, d;
  std::vector<cublasLtMatmulHeuristicResult_t> found;
};

CublasGemm::CublasGemm(int rows, int columns, int depth, bool gelu, gemm_sm90::ElementType type)
    : state_(new State) {
  workspace();  // cannot be allocated while a graph is captured
  check(cublasLtMatmulDescCreate(&state_->product, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  cublasOperation_t const transposed = CUBLAS_OP_T;
  check(cublasLtMatmulDescSetAttribute(state_->product, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                       sizeof transposed));
  if (gelu) {
    cublasLtEpilogue_t const epilogue = CUBLASLT_EPILOGUE_GELU;
    check(cublasLtMatmulDescSetAttribute(state_->product, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                         sizeof epilogue));
  }
  cudaDataType_t const data = type == gemm_sm90::ElementType::fp16 ? CUDA_R_16F : CUDA_R_16BF;
  check(cublasLtMatrixLayoutCreate(&state_->b, data, depth, columns, depth));
  check(cublasLtMatrixLayoutCreate(&state_->a, data, depth, rows, depth));
  check(cublasLtMatrixLayoutCreate(&state_->d, data, columns, rows, columns));
  cublasLtMatmulPreference_t preference;
  check(cublasLtMatmulPreferenceCreate(&preference));
  check(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                             &workspace_bytes, sizeof workspace_bytes));
  state_->found.resize(most_algorithms);
  int count = 0;
  check(cublasLtMatmulAlgoGetHeuristic(handle(), state_->product, state_->b, state_->a, state_->d, state_->d,
                                       preference, most_algorithms, state_->found.data(), &count));
  state_->found.resize(count);
  cublasLtMatmulPreferenceDestroy(preference);
}

CublasGemm::~CublasGemm() {
  cublasLtMatrixLayoutDestroy(state_->a);
  cublasLtMatrixLayoutDestroy(state_->b);
  cublasLtMatrixLayoutDestroy(state_->d);
  cublasLtMatmulDescDestroy(state_->product);
}

int CublasGemm::algorithms() const { return static_cast<int>(state_->found.size()); }

std::string CublasGemm::describe(int algorithm) const {
  auto const* chosen = &state_->found[algorithm].algo;
  int tile = 0;
  int split = 0;
  std::size_t written = 0;
  cublasLtMatmulAlgoConfigGetAttribute(chosen, CUBLASLT_ALGO_CONFIG_TILE_ID, &tile, sizeof tile, &written);
  cublasLtMatmulAlgoConfigGetAttribute(chosen, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &split, sizeof split,
                                       &written);
  return "algorithm " + std::to_string(algorithm) + " (tile id " + std::to_string(tile) + ", split " +
         std::to_string(split) + ")";
}

cudaError_t CublasGemm::run(int algorithm, void const* a, void const* b, void* d, cudaStream_t stream) const {
  float const one = 1;
  float const zero = 0;
  cublasStatus_t const status =
      cublasLtMatmul(handle(), state_->product, &one, b, state_->b, a, state_->a, &zero, d, state_->d, d,
                     state_->d, &state_->found[algorithm].algo, workspace(), workspace_bytes, stream);
  return status == CUBLAS_STATUS_SUCCESS ? cudaSuccess : cudaErrorNotSupported;
}

}  // namespace tessera::bench
