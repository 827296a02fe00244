// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "gemm.hpp"

namespace tessera::gemm_sm90 {

// One file of instances/ each.
std::vector<Kernel> kernels_64x128x64_1x1();
std::vector<Kernel> kernels_128x96x64_2x1();
std::vector<Kernel> kernels_128x128x64_2x1();
std::vector<Kernel> kernels_128x144x64_2x1();
std::vector<Kernel> kernels_128x160x64_2x1();
std::vector<Kernel> kernels_128x168x64_2x1();
std::vector<Kernel> kernels_128x176x64_2x1();
std::vector<Kernel> kernels_128x192x64_2x1();
std::vector<Kernel> kernels_128x256x64_2x1();
std::vector<Kernel> kernels_256x128x64_1x2();
std::vector<Kernel> kernels_256x144x64_1x2();
std::vector<Kernel> kernels_256x176x64_2x1();
std::vector<Kernel> kernels_256x192x64_2x1();
std::vector<Kernel> kernels_80x192x64_2x1_swapped();
std::vector<Kernel> kernels_96x192x64_2x1_swapped();
std::vector<Kernel> kernels_112x192x64_2x1_swapped();
std::vector<Kernel> kernels_160x128x64_2x1_swapped();

std::vector<Kernel> const& kernels() {
  static std::vector<Kernel> const all = [] {
    std::vector<Kernel> result;
    for (auto const shape :
         {kernels_64x128x64_1x1, kernels_128x96x64_2x1, kernels_128x128x64_2x1, kernels_128x144x64_2x1,
          kernels_128x160x64_2x1, kernels_128x168x64_2x1, kernels_128x176x64_2x1, kernels_128x192x64_2x1,
          kernels_128x256x64_2x1, kernels_256x128x64_1x2, kernels_256x144x64_1x2, kernels_256x176x64_2x1,
          kernels_256x192x64_2x1, kernels_80x192x64_2x1_swapped, kernels_96x192x64_2x1_swapped,
          kernels_112x192x64_2x1_swapped, kernels_160x128x64_2x1_swapped})
      for (Kernel const& kernel : shape()) result.push_back(kernel);
    return result;
  }();
  return all;
}

std::vector<Kernel const*> kernels_for(ElementType type, bool gated) {
  std::vector<Kernel const*> result;
  for (Kernel const& kernel : kernels())
    if (kernel.info.type == type && kernel.info.gated == gated) result.push_back(&kernel);
  return result;
}

Kernel const* find_kernel(char const* name) {
  for (Kernel const& kernel : kernels())
    if (std::strcmp(kernel.info.name, name) == 0) return &kernel;
  return nullptr;
}

cudaError_t prepare(Kernel const& kernel, KernelInfo* info) {
  cudaError_t error = cudaFuncSetAttribute(kernel.function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                           kernel.info.shared_bytes);
  if (error != cudaSuccess) return error;
  cudaFuncAttributes attributes{};
  error = cudaFuncGetAttributes(&attributes, kernel.function);
  if (error != cudaSuccess || info == nullptr) return error;
  *info = kernel.info;
  info->registers = attributes.numRegs;
  return cudaSuccess;
}

void start_early(Call& call, bool early_weights) {
  call.programmatic = true;
  call.stage.completes_after_previous = true;
  call.stage.operand[0].waits_for_grid = true;
  call.stage.reorder_loads = early_weights;
}

TileGrid tiles_of(KernelInfo const& kernel, Problem const& problem) {
  TileGrid grid;
  grid.rank = 2;
  grid.extent[0] = (problem.columns + kernel.tile_columns - 1) / kernel.tile_columns;
  grid.extent[1] = (problem.rows + kernel.tile_rows - 1) / kernel.tile_rows;
  return grid;
}

ProducerTile output_tile(KernelInfo const& kernel) {
  return {kernel.tile_rows, kernel.gated ? kernel.tile_columns / 2 : kernel.tile_columns};
}

SplitSizes split_sizes(KernelInfo const& kernel, Problem const& problem) {
  if (kernel.splits == 1) return {};
  auto const up = [](int value, int unit) { return (value + unit - 1) / unit; };
  int const rows = up(up(problem.rows, kernel.tile_rows), kernel.cluster_rows) * kernel.cluster_rows;
  int const columns =
      up(up(problem.columns, kernel.tile_columns), kernel.cluster_columns) * kernel.cluster_columns;
  std::size_t const tiles = static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
  std::size_t const elements = static_cast<std::size_t>(kernel.tile_rows * kernel.tile_columns);
  return {tiles * elements * sizeof(float) * static_cast<std::size_t>(kernel.splits),
          static_cast<int>(tiles)};
}

}  // namespace tessera::gemm_sm90
