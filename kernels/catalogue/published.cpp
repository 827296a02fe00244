// SPDX-License-Identifier: Apache-2.0
// Tile shapes that real kernels have, with what a block of each holds. Shared memory follows from tile and
// number of stages; registers are those that the compiler may give out for the stated threads. Planned and
// simulated only: nothing here is compiled.
#include "families.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

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

KernelEntry entry(std::string name, OperatorKind kind, char const* architecture, int m, int n, int k,
                  int stages, Resources const& resources) {
  KernelEntry kernel;
  kernel.name = std::move(name);
  kernel.family = "published";
  kernel.architectures = {architecture};
  kernel.kind = kind;
  kernel.tile_m = m;
  kernel.tile_n = n;
  kernel.tile_k = k;
  kernel.splits = k_any_splits;
  KernelForm form;
  form.types = {ElementType::bf16, ElementType::fp16, ElementType::fp32};
  form.epilogues = {Epilogue::none, Epilogue::gelu, Epilogue::swiglu, Epilogue::geglu, Epilogue::residual};
  form.pipeline_stages = stages;
  form.resources = resources;
  kernel.forms = {form};
  return kernel;
}

/// Main loops through registers (sm_70) or cp.async (sm_80). `accumulator_bytes` per element: 2 or 4.
KernelEntry multistage(char const* architecture, OperatorKind kind, Shape const& s, int accumulator_bytes) {
  auto const accumulators = s.m * s.n * accumulator_bytes / 4 / s.threads;
  return entry(fmt::format("{}_{}x{}x{}_{}", prefix_of(kind), s.m, s.n, s.k, s.stages), kind, architecture,
               s.m, s.n, s.k, s.stages,
               {s.threads, registers_for(accumulators), s.stages * (s.m + s.n) * s.k * k_half});
}

/// TMA and warp specialization: one warp group loads, the others multiply. At launch every thread gets the
/// same registers, 65536 / threads rounded down to 8 (168 for 384 threads), and moves them between groups
/// later. 16 KiB of epilogue buffer and 1 KiB of barriers and alignment on top of the stages.
KernelEntry warp_specialized(OperatorKind kind, Shape const& s) {
  constexpr int k_epilogue = 16 * 1024;
  constexpr int k_barriers = 1024;
  auto const epilogue = std::min(k_epilogue, s.m * s.n * k_half);
  auto const accumulators = s.m * s.n / std::max(s.threads - 128, 128);
  auto const registers = s.threads >= 384 ? 168 : registers_for(accumulators);
  return entry(fmt::format("{}_{}x{}x{}_{}", prefix_of(kind), s.m, s.n, s.k, s.stages), kind, "sm_90", s.m,
               s.n, s.k, s.stages,
               {s.threads, registers, s.stages * (s.m + s.n) * s.k * k_half + epilogue + k_barriers});
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

// What a library of tiles would have: as many stages as 227 KiB hold beside the epilogue. Kernels that are
// compiled are launches of layers, which kernels/convolution cuts and prices (layer_time.hpp).
constexpr std::array k_sm90_conv{Shape{128, 128, 64, 6, 384}, Shape{128, 64, 64, 8, 256},
                                 Shape{64, 128, 64, 8, 256}, Shape{64, 64, 64, 8, 256},
                                 Shape{256, 128, 64, 4, 384}};

/// One warp per row, rows held in registers where they fit; `rows` per block.
KernelEntry softmax(int rows) {
  return entry(fmt::format("softmax_dropout_{}", rows), OperatorKind::softmax_dropout, "sm_70", rows, 1024, 1,
               2, {rows * 32, 64, 0});
}

/// 128 threads, 16 bytes each.
KernelEntry copy_kernel() {
  return entry("copy_1024", OperatorKind::copy, "sm_70", 1, 1024, 1, 1, {128, 16, 0});
}

}  // namespace

std::vector<KernelEntry> published_kernels() {
  std::vector<KernelEntry> out;
  auto const add = [&](char const* architecture, std::span<Shape const> shapes, OperatorKind kind,
                       int bytes) {
    for (auto const& shape : shapes) out.push_back(multistage(architecture, kind, shape, bytes));
  };
  add("sm_70", k_sm70_gemm, OperatorKind::gemm, 2);
  add("sm_70", k_sm70_conv, OperatorKind::conv2d, 2);
  add("sm_80", k_sm80_gemm, OperatorKind::gemm, 4);
  add("sm_80", k_sm80_conv, OperatorKind::conv2d, 4);
  for (auto const& shape : k_sm90_conv) out.push_back(warp_specialized(OperatorKind::conv2d, shape));
  for (int const rows : {4, 8, 16}) out.push_back(softmax(rows));
  out.push_back(copy_kernel());
  for (auto kernel = out.end() - 4; kernel != out.end(); ++kernel)
    kernel->architectures = {"sm_70", "sm_80", "sm_90"};
  return out;
}

}  // namespace tessera
