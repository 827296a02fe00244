// SPDX-License-Identifier: Apache-2.0
#include "piece.hpp"

#include <algorithm>

#include "kernels/common/refusal.hpp"

namespace tessera::gemm_collectives {
namespace {

gemm_sm90::Call call_of(cublaslt::LtProblem const& problem, PieceKernel const& kernel,
                        PieceOperands const& operands) {
  gemm_sm90::Call call;
  call.problem = {problem.rows, problem.columns, problem.depth, operands.a, operands.b, operands.d};
  call.band = kernel.band;
  return call;
}

bool can_do(gemm_sm90::Kernel const& kernel, cublaslt::LtProblem const& problem, PieceKernel const& how) {
  // Any aligned addresses: what is asked is whether the sizes are for it.
  auto* const some = reinterpret_cast<void*>(256);
  return !problem.gelu && kernel.info.type == problem.type && kernel.info.splits <= 1 &&
         kernel.can_implement(call_of(problem, how, {some, some, some}));
}

/// cuBLASLt's first guess; with many rows the first that splits no depth among blocks. Split ones were 15 and
/// 18 % slower than the next guess at 96 rows, and 4 % faster at 1 to 4 rows of 12288 columns
/// (results/h100x2/gemm_collectives_rows.json, results/h200x2/gemm_collectives.json).
cublaslt::LtAlgorithm first_guess(cublaslt::LtGemm const& gemm, int rows) {
  constexpr int k_least_unsplit_rows = 64;
  auto const& all = gemm.algorithms();
  if (rows >= k_least_unsplit_rows)
    for (auto const& one : all)
      if (cublaslt::lt_splits(one) <= 1) return one;
  return all.front();
}

}  // namespace

Expected<Piece> Piece::make(cublaslt::LtProblem const& problem, PieceKernel const& kernel,
                            double deadline_s) {
  Piece piece;
  piece.problem_ = problem;
  piece.kernel_ = kernel;
  if (kernel.tiles != nullptr) {
    if (!can_do(*kernel.tiles, problem, kernel))
      return kernels::refusal("E0581",
                              std::string("kernel ") + kernel.tiles->info.name + " is not for these sizes",
                              "leave the choice of the kernel to the library");
    if (auto const error = gemm_sm90::prepare(*kernel.tiles); error != cudaSuccess)
      return kernels::cuda_failed(error, "loading a kernel");
    return piece;
  }
  if (kernel.few >= 0) {
    auto const configs = few_configs(problem);
    if (problem.gelu || static_cast<std::size_t>(kernel.few) >= configs.size())
      return kernels::refusal("E0581", "no kernel for few rows is for these sizes",
                              "leave the choice of the kernel to the library");
    piece.few_ =
        std::make_shared<FewProduct>(problem, configs[static_cast<std::size_t>(kernel.few)], deadline_s);
    return piece;
  }
  auto made = cublaslt::LtGemm::make(problem);
  if (!made) return tl::make_unexpected(made.error());
  piece.lt_ = *made;
  piece.algorithm_ = first_guess(*piece.lt_, problem.rows);
  if (!kernel.algorithm.empty())
    if (auto const named = cublaslt::lt_algorithm(kernel.algorithm)) piece.algorithm_ = *named;
  auto const bytes = piece.lt_->workspace_of(piece.algorithm_);
  if (!bytes)
    return kernels::refusal("E0581", "cuBLASLt's " + kernel.algorithm + " is not for these sizes",
                            "leave the choice of the kernel to the library");
  piece.workspace_bytes_ = *bytes;
  return piece;
}

std::string Piece::name() const {
  if (few_ != nullptr) return "few rows, " + few_->name();
  return kernel_.tiles != nullptr
             ? std::string(kernel_.tiles->info.name) + " band " + std::to_string(kernel_.band)
             : cublaslt::lt_name(algorithm_);
}

Expected<void> Piece::prepare(PieceOperands const& operands) const {
  return few_ != nullptr ? few_->prepare(operands.a, operands.b, operands.d) : Expected<void>{};
}

Expected<void> Piece::run(PieceOperands const& operands, void* workspace, bool lets_next, bool early,
                          cudaStream_t stream) const {
  if (few_ != nullptr) return few_->run(operands.a, operands.b, operands.d, stream);
  auto const launch = [&]() -> cudaError_t {
    if (kernel_.tiles == nullptr)
      return operands.c != nullptr ? lt_->run_adding(algorithm_, operands.a, operands.b, operands.c,
                                                     operands.d, workspace, workspace_bytes_, stream)
                                   : lt_->run(algorithm_, operands.a, operands.b, operands.d, workspace,
                                              workspace_bytes_, stream);
    if (operands.c != nullptr) return cudaErrorNotSupported;
    auto call = call_of(problem_, kernel_, operands);
    call.stage.triggers_at_start = lets_next;
    call.programmatic = early;
    call.stage.completes_after_previous = early;
    return kernel_.tiles->launch(call, stream);
  };
  if (auto const error = launch(); error != cudaSuccess) return kernels::cuda_failed(error, "a product");
  return {};
}

PieceKernel storing_kernel(cublaslt::LtProblem const& problem) {
  constexpr char const* k_tiles = "128x256x64_2x1";
  auto const name =
      problem.type == gpu::ElementType::bf16 ? std::string(k_tiles) : std::string(k_tiles) + "_fp16";
  PieceKernel const ours{gemm_sm90::find_kernel(name.c_str()), 8, {}, -1};
  return ours.tiles != nullptr && can_do(*ours.tiles, problem, ours) ? ours : PieceKernel{};
}

std::vector<PieceKernel> kernels_to_try(cublaslt::LtProblem const& problem, int most_algorithms) {
  std::vector<PieceKernel> result;
  if (auto const made = cublaslt::LtGemm::make(problem)) {
    int taken = 0;
    for (auto const& algorithm : (*made)->algorithms()) {
      if (taken++ == most_algorithms) break;
      result.push_back({nullptr, 8, cublaslt::lt_name(algorithm), -1});
    }
  }
  auto const few_rows = few_configs(problem);
  for (std::size_t i = 0; i < few_rows.size(); ++i) result.push_back({nullptr, 8, {}, static_cast<int>(i)});
  for (auto const* kernel : gemm_sm90::kernels_for(problem.type, false)) {
    auto const& info = kernel->info;
    // The larger tiles; few rows are better off with the others.
    if (info.splits > 1 || info.swapped || problem.rows <= 64 ||
        info.tile_rows * info.tile_columns < 128 * 192)
      continue;
    result.push_back({kernel, 8, {}, -1});
  }
  return result;
}

}  // namespace tessera::gemm_collectives
