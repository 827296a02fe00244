// SPDX-License-Identifier: Apache-2.0
// One GEMM by cuBLASLt.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tessera/diagnostic.hpp>
#include <vector>

#include "src/gpu/element_type.hpp"

namespace tessera::cublaslt {

/// Which of cuBLASLt's kernels, in the library's own bits. They mean the same for one version of the library.
using LtAlgorithm = std::array<std::uint64_t, 8>;

/// "cublaslt(tile 28 split 1 #2a-0-1c)"; the part after # is the algorithm, and all that is read back.
std::string lt_name(LtAlgorithm const& algorithm);
/// Among how many blocks it splits the depth of a tile.
int lt_splits(LtAlgorithm const& algorithm);
/// Nothing if the text is no such name.
std::optional<LtAlgorithm> lt_algorithm(std::string const& name);

/// d[rows][columns] = activation(a[rows][depth] * b[columns][depth]^T), row-major.
struct LtProblem {
  int rows = 0, columns = 0, depth = 0;
  gpu::ElementType type = gpu::ElementType::bf16;
  bool gelu = false;
  bool wide = false;  ///< d, and what is added to it, in fp32

  auto operator<=>(LtProblem const&) const = default;
};

/// The most device memory that a call may use.
constexpr std::size_t workspace_bytes = 64u << 20;

class LtGemm {
 public:
  /// E0533 with cuBLASLt's status. Asked for once; the same problem has the same answer until the process
  /// ends.
  static Expected<std::shared_ptr<LtGemm const>> make(LtProblem const& problem);

  /// All that the library's heuristic offers, its best guess first. At least one.
  std::vector<LtAlgorithm> const& algorithms() const;
  /// Can this algorithm, found for other sizes, do these?
  bool supports(LtAlgorithm const& algorithm) const;
  /// Device memory that it needs beside the matrices; nothing if it cannot do these sizes.
  std::optional<std::size_t> workspace_of(LtAlgorithm const& algorithm) const;
  /// cudaErrorNotSupported if it cannot. `workspace` has `bytes`, at least workspace_of().
  cudaError_t run(LtAlgorithm const& algorithm, void const* a, void const* b, void* d, void* workspace,
                  std::size_t bytes, cudaStream_t stream) const;
  /// The same for d = a * b^T + c, added in fp32; c has d's sizes and is another matrix, or d itself.
  cudaError_t run_adding(LtAlgorithm const& algorithm, void const* a, void const* b, void const* c, void* d,
                         void* workspace, std::size_t bytes, cudaStream_t stream) const;

  struct State;
  explicit LtGemm(std::shared_ptr<State const> state) : state_(std::move(state)) {}

 private:
  cudaError_t multiply(LtAlgorithm const& algorithm, void const* a, void const* b, float share, void const* c,
                       void* d, void* workspace, std::size_t bytes, cudaStream_t stream) const;

  std::shared_ptr<State const> state_;
};

/// The version of the library that runs, not of its header: 130001.
std::size_t lt_version();

}  // namespace tessera::cublaslt
