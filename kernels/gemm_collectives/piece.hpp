// SPDX-License-Identifier: Apache-2.0
// One of the products that a collective is cut into: by cuBLASLt, or by a kernel of ours.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>
#include <tessera/diagnostic.hpp>
#include <vector>

#include "kernels/cublaslt/gemm.hpp"
#include "kernels/gemm_collectives/few_product.hpp"
#include "kernels/gemm_sm90/gemm.hpp"

namespace tessera::gemm_collectives {

/// Which kernel: tiles of gemm_sm90, or rings of few_tokens, or neither: cuBLASLt's.
struct PieceKernel {
  gemm_sm90::Kernel const* tiles = nullptr;
  int band = 8;  ///< of `tiles`: Call::band
  std::string
      algorithm{};  ///< of cuBLASLt, as lt_name() writes it; empty: its first guess, see first_guess()
  int few = -1;     ///< which of few_configs()
};

struct PieceOperands {
  void const* a = nullptr;
  void const* b = nullptr;
  void* d = nullptr;
  void const* c = nullptr;  ///< added, by cuBLASLt alone; null: nothing is
};

class Piece {
 public:
  /// E0533, or E0581 for a kernel that is not for these sizes. Loads it on the current device.
  /// `deadline_s`: of a wait in a kernel for few rows; the others wait for nothing.
  static Expected<Piece> make(cublaslt::LtProblem const& problem, PieceKernel const& kernel,
                              double deadline_s = 2);

  std::size_t workspace_bytes() const { return workspace_bytes_; }
  std::string name() const;
  /// Its blocks let the next kernel start early, and a later one can.
  bool chains() const { return kernel_.tiles != nullptr; }
  bool by_library() const { return lt_ != nullptr; }
  /// By its first launch; tiles are loaded when they are made.
  bool is_loaded_late() const { return lt_ != nullptr || few_ != nullptr; }
  /// Makes what a launch with these operands on the current device needs, where that is not there.
  Expected<void> prepare(PieceOperands const& operands) const;
  /// `lets_next`: the kernel behind it may start as soon as its own blocks have all begun. `early`: it is
  /// such a kernel, and reads nothing of what the one before writes; it ends after it.
  Expected<void> run(PieceOperands const& operands, void* workspace, bool lets_next, bool early,
                     cudaStream_t stream) const;
  /// As FewProduct::stalled() and finish(): of a kernel for few rows.
  bool stalled() const { return few_ != nullptr && few_->stalled(); }
  Expected<void> finish() const { return few_ != nullptr ? few_->finish() : Expected<void>{}; }

 private:
  cublaslt::LtProblem problem_;
  PieceKernel kernel_;
  std::shared_ptr<cublaslt::LtGemm const> lt_;
  std::shared_ptr<FewProduct> few_;
  cublaslt::LtAlgorithm algorithm_{};
  std::size_t workspace_bytes_ = 0;
};

/// What a product that stores across a link takes untuned: tiles of ours, which do not wait for each tile's
/// stores; cuBLASLt's first guess where they are not for these sizes.
PieceKernel storing_kernel(cublaslt::LtProblem const& problem);

/// Kernels that are worth a try for a product, cuBLASLt's first guess first.
std::vector<PieceKernel> kernels_to_try(cublaslt::LtProblem const& problem, int most_algorithms);

}  // namespace tessera::gemm_collectives
