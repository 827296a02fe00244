// SPDX-License-Identifier: Apache-2.0
#include "gemm.hpp"

#include <cublasLt.h>
#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <map>
#include <mutex>

#include "kernels/common/refusal.hpp"

namespace tessera::cublaslt {
namespace {

using kernels::refusal;

constexpr int most_algorithms = 32;
static_assert(sizeof(cublasLtMatmulAlgo_t) == sizeof(LtAlgorithm));

/// One for each device, never destroyed: it may be used until the driver is gone. The current device's.
cublasLtHandle_t handle() {
  static auto& made = *new std::map<int, cublasLtHandle_t>;
  static std::mutex mutex;
  int device = 0;
  (void)cudaGetDevice(&device);
  std::lock_guard const lock(mutex);
  auto const [known, is_new] = made.try_emplace(device, nullptr);
  if (is_new && cublasLtCreate(&known->second) != CUBLAS_STATUS_SUCCESS) known->second = nullptr;
  return known->second;
}

cublasLtMatmulAlgo_t opaque(LtAlgorithm const& algorithm) {
  cublasLtMatmulAlgo_t result;
  std::memcpy(&result, algorithm.data(), sizeof result);
  return result;
}

int attribute(LtAlgorithm const& algorithm, cublasLtMatmulAlgoConfigAttributes_t which) {
  auto const bits = opaque(algorithm);
  int value = 0;
  std::size_t written = 0;
  cublasLtMatmulAlgoConfigGetAttribute(&bits, which, &value, sizeof value, &written);
  return value;
}

}  // namespace

// Row-major d = a * b^T is column-major d^T = b * a^T: cuBLAS's first operand is b, transposed.
struct LtGemm::State {
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
  std::vector<LtAlgorithm> found;

  State() = default;
  State(State const&) = delete;
  State& operator=(State const&) = delete;
  ~State() {
    if (d != nullptr) cublasLtMatrixLayoutDestroy(d);
    if (b != nullptr) cublasLtMatrixLayoutDestroy(b);
    if (a != nullptr) cublasLtMatrixLayoutDestroy(a);
    if (product != nullptr) cublasLtMatmulDescDestroy(product);
  }

  cublasStatus_t describe(LtProblem const& problem) {
    auto const type = problem.type == gpu::ElementType::bf16 ? CUDA_R_16BF : CUDA_R_16F;
    auto const result_type = problem.wide ? CUDA_R_32F : type;
    auto const transposed = CUBLAS_OP_T;
    auto const epilogue = problem.gelu ? CUBLASLT_EPILOGUE_GELU : CUBLASLT_EPILOGUE_DEFAULT;
    cublasStatus_t status = cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    auto const then = [&](auto const& call) {
      if (status == CUBLAS_STATUS_SUCCESS) status = call();
    };
    then([&] {
      return cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                            sizeof transposed);
    });
    then([&] {
      return cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                            sizeof epilogue);
    });
    then([&] { return cublasLtMatrixLayoutCreate(&b, type, problem.depth, problem.columns, problem.depth); });
    then([&] { return cublasLtMatrixLayoutCreate(&a, type, problem.depth, problem.rows, problem.depth); });
    then([&] {
      return cublasLtMatrixLayoutCreate(&d, result_type, problem.columns, problem.rows, problem.columns);
    });
    return status;
  }

  cublasStatus_t ask() {
    cublasLtMatmulPreference_t preference = nullptr;
    cublasStatus_t status = cublasLtMatmulPreferenceCreate(&preference);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    std::vector<cublasLtMatmulHeuristicResult_t> results(most_algorithms);
    int count = 0;
    status = cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                  &workspace_bytes, sizeof workspace_bytes);
    if (status == CUBLAS_STATUS_SUCCESS)
      status = cublasLtMatmulAlgoGetHeuristic(handle(), product, b, a, d, d, preference, most_algorithms,
                                              results.data(), &count);
    cublasLtMatmulPreferenceDestroy(preference);
    for (int i = 0; status == CUBLAS_STATUS_SUCCESS && i < count; ++i) {
      if (results[i].state != CUBLAS_STATUS_SUCCESS) continue;
      std::memcpy(found.emplace_back().data(), &results[i].algo, sizeof results[i].algo);
    }
    if (status == CUBLAS_STATUS_SUCCESS && found.empty()) status = CUBLAS_STATUS_NOT_SUPPORTED;
    return status;
  }
};

std::string lt_name(LtAlgorithm const& algorithm) {
  std::size_t words = algorithm.size();
  while (words > 1 && algorithm[words - 1] == 0) --words;
  std::string bits;
  for (std::size_t i = 0; i < words; ++i) bits += fmt::format("{}{:x}", i == 0 ? "#" : "-", algorithm[i]);
  return fmt::format("cublaslt(tile {} split {} {})", attribute(algorithm, CUBLASLT_ALGO_CONFIG_TILE_ID),
                     attribute(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM), bits);
}

int lt_splits(LtAlgorithm const& algorithm) { return attribute(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM); }

std::optional<LtAlgorithm> lt_algorithm(std::string const& name) {
  auto const mark = name.find('#');
  if (name.rfind("cublaslt(", 0) != 0 || mark == std::string::npos || name.back() != ')') return {};
  LtAlgorithm result{};
  char const* at = name.data() + mark;
  char const* const end = name.data() + name.size() - 1;
  std::size_t words = 0;
  while (at != end && words < result.size()) {
    auto const [next, error] = std::from_chars(at + 1, end, result[words], 16);
    if (error != std::errc{} || (next != end && *next != '-')) return {};
    at = next;
    ++words;
  }
  return at == end ? std::optional(result) : std::nullopt;
}

Expected<std::shared_ptr<LtGemm const>> LtGemm::make(LtProblem const& problem) {
  // Never destroyed: when statics are, the driver may be gone.
  static auto& known = *new std::map<LtProblem, std::shared_ptr<LtGemm const>>;
  static std::mutex mutex;
  std::lock_guard const lock(mutex);
  if (auto const found = known.find(problem); found != known.end()) return found->second;
  auto state = std::make_shared<State>();
  auto status = handle() == nullptr ? CUBLAS_STATUS_NOT_INITIALIZED : state->describe(problem);
  if (status == CUBLAS_STATUS_SUCCESS) status = state->ask();
  if (status != CUBLAS_STATUS_SUCCESS)
    return refusal("E0533",
                   fmt::format("cuBLASLt offers nothing for a product of {} x {} x {}: {}", problem.rows,
                               problem.columns, problem.depth, cublasLtGetStatusString(status)),
                   "see whether the device works (nvidia-smi) and whether the library fits the driver");
  return known[problem] = std::make_shared<LtGemm const>(std::move(state));
}

std::vector<LtAlgorithm> const& LtGemm::algorithms() const { return state_->found; }

std::optional<std::size_t> LtGemm::workspace_of(LtAlgorithm const& algorithm) const {
  auto const bits = opaque(algorithm);
  cublasLtMatmulHeuristicResult_t result{};
  bool const can = cublasLtMatmulAlgoCheck(handle(), state_->product, state_->b, state_->a, state_->d,
                                           state_->d, &bits, &result) == CUBLAS_STATUS_SUCCESS &&
                   result.state == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= workspace_bytes;
  return can ? std::optional(result.workspaceSize) : std::nullopt;
}

bool LtGemm::supports(LtAlgorithm const& algorithm) const { return workspace_of(algorithm).has_value(); }

cudaError_t LtGemm::multiply(LtAlgorithm const& algorithm, void const* a, void const* b, float share,
                             void const* c, void* d, void* workspace, std::size_t bytes,
                             cudaStream_t stream) const {
  float const one = 1;
  auto const bits = opaque(algorithm);
  auto const status = cublasLtMatmul(handle(), state_->product, &one, b, state_->b, a, state_->a, &share, c,
                                     state_->d, d, state_->d, &bits, workspace, bytes, stream);
  return status == CUBLAS_STATUS_SUCCESS ? cudaSuccess : cudaErrorNotSupported;
}

cudaError_t LtGemm::run(LtAlgorithm const& algorithm, void const* a, void const* b, void* d, void* workspace,
                        std::size_t bytes, cudaStream_t stream) const {
  return multiply(algorithm, a, b, 0, d, d, workspace, bytes, stream);
}

cudaError_t LtGemm::run_adding(LtAlgorithm const& algorithm, void const* a, void const* b, void const* c,
                               void* d, void* workspace, std::size_t bytes, cudaStream_t stream) const {
  return multiply(algorithm, a, b, 1, c, d, workspace, bytes, stream);
}

std::size_t lt_version() { return cublasLtGetVersion(); }

}  // namespace tessera::cublaslt
