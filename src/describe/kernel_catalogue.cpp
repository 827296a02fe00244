// SPDX-License-Identifier: Apache-2.0
// Tile shapes that real kernels have, with what a block of each holds. Shared memory follows from tile and
// number of stages; registers are those that the compiler may give out for the stated threads.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "tessera/describe/workload.hpp"

namespace tessera {
namespace {

constexpr int k_half = 2;  // bytes of fp16 and bf16

struct Shape {
  int m, n, k, stages, threads;
};

char const* prefix_of(OperatorKind kind) { return kind == OperatorKind::conv2d ? "conv2d" : "gemm"; }

int registers_for(int accumulators_per_thread) {
  // Fragments, addresses and loop state of CUTLASS main loops take about 64 more; multiples of 8, 255 at
  // most.
  return std::min((accumulators_per_thread + 64 + 7) / 8 * 8, 255);
}

/// Main loops through registers (sm_70) or cp.async (sm_80). `accumulator_bytes` per element: 2 or 4.
KernelVariant multistage(OperatorKind kind, Shape const& s, int accumulator_bytes) {
  auto const accumulators = s.m * s.n * accumulator_bytes / 4 / s.threads;
  return {fmt::format("{}_{}x{}x{}_{}", prefix_of(kind), s.m, s.n, s.k, s.stages),
          kind,
          s.m,
          s.n,
          s.k,
          s.stages,
          {s.threads, registers_for(accumulators), s.stages * (s.m + s.n) * s.k * k_half}};
}

/// TMA and warp specialization: one warp group loads, the others multiply. At launch every thread gets the
/// same registers, 65536 / threads rounded down to 8 (168 for 384 threads), and moves them between groups
/// later. 16 KiB of epilogue buffer and 1 KiB of barriers and alignment on top of the stages.
KernelVariant warp_specialized(OperatorKind kind, Shape const& s) {
  constexpr int k_epilogue = 16 * 1024;
  constexpr int k_barriers = 1024;
  auto const epilogue = std::min(k_epilogue, s.m * s.n * k_half);
  auto const accumulators = s.m * s.n / std::max(s.threads - 128, 128);
  auto const registers = s.threads >= 384 ? 168 : registers_for(accumulators);
  return {fmt::format("{}_{}x{}x{}_{}", prefix_of(kind), s.m, s.n, s.k, s.stages),
          kind,
          s.m,
          s.n,
          s.k,
          s.stages,
          {s.threads, registers, s.stages * (s.m + s.n) * s.k * k_half + epilogue + k_barriers}};
}

// cuSync's V100 kernels: CUTLASS two-stage main loops with k slices of 32. The grids of cuSync's table IV
// are these tiles: 6144/256 = 24 and 12288/256 = 48 columns, 6144/128 = 48 at 256 rows, 256 rows per tile
// from 512 on. 256 x 256 only fits with fp16 accumulators (Volta's HMMA has both), and with them the V100's
// 96 KiB of shared memory holds two blocks of every shape but 256 x 256 (64 KiB): the occupancies of table I.
constexpr std::array k_sm70_gemm{
    Shape{256, 256, 32, 2, 256}, Shape{256, 128, 32, 2, 256}, Shape{128, 256, 32, 2, 256},
    Shape{64, 256, 32, 2, 128},  Shape{32, 256, 32, 2, 128},  Shape{128, 128, 32, 2, 128},
    Shape{64, 128, 32, 2, 128},  Shape{32, 128, 32, 2, 64},   Shape{64, 64, 32, 2, 64}};
constexpr std::array k_sm70_conv{Shape{256, 128, 32, 2, 256}, Shape{128, 128, 32, 2, 128},
                                 Shape{128, 64, 32, 2, 128}, Shape{64, 128, 32, 2, 128},
                                 Shape{64, 64, 32, 2, 64}};

// Tile descriptions of CUTLASS's generated library for sm_80 (16816 tensor ops, fp32 accumulators).
constexpr std::array k_sm80_gemm{
    Shape{256, 128, 32, 3, 256}, Shape{128, 256, 32, 3, 256}, Shape{128, 128, 32, 4, 128},
    Shape{256, 64, 32, 4, 128},  Shape{64, 256, 32, 4, 128},  Shape{128, 128, 64, 4, 128},
    Shape{128, 64, 32, 6, 128},  Shape{64, 128, 32, 6, 128},  Shape{64, 64, 32, 10, 128},
    Shape{64, 128, 64, 3, 128},  Shape{64, 64, 64, 5, 128},   Shape{32, 128, 64, 4, 128},
    Shape{16, 128, 64, 5, 128}};
constexpr std::array k_sm80_conv{Shape{256, 128, 32, 3, 256}, Shape{128, 128, 32, 4, 128},
                                 Shape{128, 64, 32, 6, 128}, Shape{64, 128, 32, 6, 128},
                                 Shape{64, 64, 32, 10, 128}};

// What kernels/gemm_sm90 compiles, as its KernelInfo and the driver report it: these can be run.
struct CompiledGemm {
  Shape shape;
  int cluster_m, cluster_n;
  int shared_bytes;
};
constexpr std::array k_sm90_gemm{
    CompiledGemm{{128, 256, 64, 4, 384}, 2, 1, 214016}, CompiledGemm{{256, 128, 64, 4, 384}, 1, 2, 214016},
    CompiledGemm{{128, 192, 64, 5, 384}, 2, 1, 214016}, CompiledGemm{{256, 192, 64, 3, 384}, 2, 1, 189440},
    CompiledGemm{{256, 144, 64, 3, 384}, 1, 2, 190848}, CompiledGemm{{128, 176, 64, 5, 384}, 2, 1, 217472},
    CompiledGemm{{128, 168, 64, 5, 384}, 2, 1, 209280}, CompiledGemm{{128, 160, 64, 6, 384}, 2, 1, 230400},
    CompiledGemm{{128, 144, 64, 6, 384}, 2, 1, 227712}, CompiledGemm{{128, 128, 64, 6, 384}, 2, 1, 205824},
    CompiledGemm{{128, 96, 64, 7, 384}, 2, 1, 209920},  CompiledGemm{{64, 128, 64, 9, 384}, 1, 1, 230400}};

/// "gemm_" and the name by which gemm_sm90::find_kernel() knows it.
KernelVariant compiled(CompiledGemm const& gemm) {
  auto const& s = gemm.shape;
  return {fmt::format("gemm_{}x{}x{}_{}x{}", s.m, s.n, s.k, gemm.cluster_m, gemm.cluster_n),
          OperatorKind::gemm,
          s.m,
          s.n,
          s.k,
          s.stages,
          {s.threads, 168, gemm.shared_bytes},
          gemm.cluster_m,
          gemm.cluster_n,
          false};
}

// Convolutions are not compiled yet: as many stages as 227 KiB hold beside the epilogue.
constexpr std::array k_sm90_conv{Shape{128, 128, 64, 6, 384}, Shape{128, 64, 64, 8, 256},
                                 Shape{64, 128, 64, 8, 256}, Shape{64, 64, 64, 8, 256},
                                 Shape{256, 128, 64, 4, 384}};

/// One warp per row, rows held in registers where they fit; `rows` per block.
KernelVariant softmax(int rows) {
  return {fmt::format("softmax_dropout_{}", rows),
          OperatorKind::softmax_dropout,
          rows,
          1024,
          1,
          2,
          {rows * 32, 64, 0}};
}

/// 128 threads, 16 bytes each.
KernelVariant copy_kernel() { return {"copy_1024", OperatorKind::copy, 1, 1024, 1, 1, {128, 16, 0}}; }

void push_common(std::vector<KernelVariant>& out) {
  for (int const rows : {4, 8, 16}) out.push_back(softmax(rows));
  out.push_back(copy_kernel());
}

std::vector<KernelVariant> multistage_catalogue(std::span<Shape const> gemm, std::span<Shape const> conv,
                                                int accumulator_bytes) {
  std::vector<KernelVariant> out;
  for (auto const& shape : gemm) out.push_back(multistage(OperatorKind::gemm, shape, accumulator_bytes));
  for (auto const& shape : conv) out.push_back(multistage(OperatorKind::conv2d, shape, accumulator_bytes));
  push_common(out);
  return out;
}

}  // namespace

std::vector<KernelVariant> kernel_catalogue(std::string const& architecture) {
  if (architecture == "sm_70") return multistage_catalogue(k_sm70_gemm, k_sm70_conv, 2);
  if (architecture == "sm_80") return multistage_catalogue(k_sm80_gemm, k_sm80_conv, 4);
  if (architecture != "sm_90") return {};
  std::vector<KernelVariant> out;
  for (auto const& gemm : k_sm90_gemm) out.push_back(compiled(gemm));
  for (auto const& shape : k_sm90_conv) out.push_back(warp_specialized(OperatorKind::conv2d, shape));
  push_common(out);
  return out;
}

}  // namespace tessera
