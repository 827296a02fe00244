// SPDX-License-Identifier: Apache-2.0
// The kernels of layers of one type, and which of them a cut asks for.
#pragma once

#include "kernels/common/refusal.hpp"
#include "kernels/convolution/layer_kernel.cuh"
#include "kernels/convolution/layer_launch.hpp"
#include "src/gpu/launch.hpp"
#include "src/gpu/raise_shared.hpp"

namespace tessera::convolution {

using LayerKernel = void (*)(LayerLaunch);

/// Two blocks of an SM where sums leave them registers.
constexpr int blocks_per_sm(int sums) { return sums > k_sums_of_half ? 1 : 2; }

template <class Element, int DepthGroups, int Last = k_wide_kinds - 1>
LayerKernel by_groups(int column_tiles) {
  constexpr int tiles = k_wide_tiles[Last];
  if (column_tiles == tiles)
    return layer_kernel<ByGroups<Element, tiles, DepthGroups>, blocks_per_sm(4 * tiles)>;
  if constexpr (Last > 0) return by_groups<Element, DepthGroups, Last - 1>(column_tiles);
  return nullptr;
}
template <class Element, int RowTiles, int Steps, int Last = k_column_kinds - 1>
LayerKernel by_warps(int column_tiles) {
  constexpr int tiles = k_column_tiles[Last];
  if (column_tiles == tiles)
    return layer_kernel<ByWarps<Element, RowTiles, tiles, Steps>, blocks_per_sm(4 * tiles * RowTiles)>;
  if constexpr (Last > 0) return by_warps<Element, RowTiles, Steps, Last - 1>(column_tiles);
  return nullptr;
}

/// Null: there is none.
template <class Element>
LayerKernel layer_kernel_of(Cut const& cut) {
  int const tiles = cut.column_tiles;
  if (cut.wide != 0)
    return cut.depth_warps == 1 ? by_groups<Element, 1>(tiles) : by_groups<Element, 2>(tiles);
  int const steps = steps_of(cut.depth_warps);
  if (cut.row_tiles == 1) return steps == 1 ? by_warps<Element, 1, 1>(tiles) : nullptr;
  return steps == 4   ? by_warps<Element, 2, 4>(tiles)
         : steps == 2 ? by_warps<Element, 2, 2>(tiles)
                      : by_warps<Element, 2, 1>(tiles);
}

template <class Element>
Expected<ConvLoop> layer_of(ConvStage const& stage, LayerMemory const& memory, CUtensorMap const& filters,
                            CUtensorMap const& pixels, bool early) {
  auto const kernel = layer_kernel_of<Element>(stage.cut);
  if (kernel == nullptr)
    return kernels::refusal("E0567", "a layer in a launch of its own, cut as no kernel is",
                            "take one of layer_cuts()");
  if (auto const e = gpu::raise_shared(reinterpret_cast<void const*>(kernel), memory.bytes());
      e != cudaSuccess)
    return kernels::cuda_failed(e, "cudaFuncSetAttribute for a convolution");
  if (auto const e = cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                          cudaSharedmemCarveoutMaxShared);
      e != cudaSuccess)
    return kernels::cuda_failed(e, "cudaFuncSetAttribute for a convolution");
  LayerLaunch const launch{filters, pixels, stage, memory};
  gpu::Shape shape;
  shape.blocks = dim3(static_cast<unsigned>(stage.tiles()));
  shape.threads = dim3(k_layer_threads);
  shape.shared = static_cast<std::size_t>(memory.bytes());
  shape.cluster = dim3(static_cast<unsigned>(stage.cut.splits));
  shape.programmatic = early;
  return ConvLoop{[kernel, launch, shape](GpuStream stream) -> Expected<void> {
                    auto const e = gpu::try_launch(shape, stream, kernel, launch);
                    if (e != cudaSuccess) return kernels::cuda_failed(e, "the launch of a convolution");
                    return {};
                  },
                  [] { return Expected<void>(); }};
}

}  // namespace tessera::convolution
