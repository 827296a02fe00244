// SPDX-License-Identifier: Apache-2.0
// Product of few rows (1 to 64) and many weights, for a step that generates: its weights are on their way
// before the launches before it are complete, and blocks of a cluster divide the depth. For sm_90a.
#pragma once

#include <cuda_runtime_api.h>

#include <compare>
#include <vector>

namespace tessera::skinny_gemm {

constexpr int k_most_rows = 64;

/// What becomes of the sums, which are in fp32.
enum class Result {
  bf16,   ///< rounded
  fp32,   ///< as they are
  added,  ///< to fp32 numbers that are there
  gated,  ///< SwiGLU, rounded: columns 2 i and 2 i + 1 are gate and up of feature i
};

struct Problem {
  int rows = 0, columns = 0, depth = 0;
  Result result = Result::bf16;

  auto operator<=>(Problem const&) const = default;
};

/// How a product is cut.
struct Config {
  int columns = 64;     ///< that a cluster makes, a multiple of 16 up to 128; each 64 have a warpgroup
  int split = 1;        ///< 1, 2, 4 or 8 blocks of a cluster, which divide the depth
  int stage_depth = 2;  ///< 2 or 4 blocks of 64 numbers of the depth to a stage of the ring
  int stages = 3;       ///< of the ring, 2 to 16

  auto operator<=>(Config const&) const = default;
};

/// In device memory, 16-byte aligned.
struct Operands {
  void const* input = nullptr;    ///< [rows][depth] of bf16
  void const* weights = nullptr;  ///< [columns][depth] of bf16, written long before this launch
  void* to = nullptr;             ///< [rows][columns]; gated: [rows][columns / 2]
};

/// Is there a kernel for these sizes? Columns are a multiple of 8, the depth of 64.
bool supports(Problem const& problem);
/// Cuts worth trying on a GPU of so many SMs: those that leave few of them idle. Empty: supports() says no.
std::vector<Config> configs(Problem const& problem, int sms);
/// Bytes of shared memory of a block.
std::size_t shared_bytes(Problem const& problem, Config const& config);

/// Loads the kernels, and lets them have the shared memory that they need: not while a stream is captured.
cudaError_t load();
/// to = input * weights^T, or what `result` says. A programmatic launch: weights are loaded at once, all else
/// is read and written when the launches before are complete, and only then the launch behind it may begin.
/// cudaErrorInvalidValue: sizes or a cut that no kernel has.
cudaError_t launch(Problem const& problem, Config const& config, Operands const& operands,
                   cudaStream_t stream);

}  // namespace tessera::skinny_gemm
