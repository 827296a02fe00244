// SPDX-License-Identifier: Apache-2.0
#include "skinny_gemm.hpp"

#include <cstdint>

#include "instance.hpp"
#include "src/gpu/launch.hpp"
#include "src/gpu/tensor_map.hpp"

namespace tessera::skinny_gemm {
namespace {

Instance const& instance_of(int rows) {
  static Instance const all[] = {instance_16(), instance_32(), instance_64()};
  int const columns = instruction_columns(rows);
  return all[columns == 16 ? 0 : columns == 32 ? 1 : 2];
}

bool map_of(CUtensorMap* map, void const* matrix, int rows, int depth, int box_rows, int box_blocks,
            CUtensorMapL2promotion promotion) {
  auto const wide = [](int value) { return static_cast<cuuint64_t>(value); };
  cuuint64_t const sizes[] = {k_block, wide(rows), wide(depth / k_block)};
  cuuint64_t const strides[] = {wide(depth) * 2, k_block * 2};
  cuuint32_t const box[] = {k_block, static_cast<cuuint32_t>(box_rows), static_cast<cuuint32_t>(box_blocks)};
  return gpu::encode_tensor_map(map, gpu::ElementType::bf16, matrix, 3, sizes, strides, box, promotion);
}

}  // namespace

bool takes(Problem const& problem, Operands const& o) {
  auto const aligned = [](void const* at) { return reinterpret_cast<std::uintptr_t>(at) % 16 == 0; };
  for (void const* needed : {o.input, o.weights, static_cast<void const*>(o.to)})
    if (needed == nullptr || !aligned(needed)) return false;
  for (void const* at : {static_cast<void const*>(o.norm.squares), static_cast<void const*>(o.shift),
                         static_cast<void const*>(o.from), static_cast<void const*>(o.rounded),
                         static_cast<void const*>(o.squares)})
    if (!aligned(at)) return false;
  bool const leaves_norm = o.rounded != nullptr;
  if (leaves_norm != (o.squares != nullptr)) return false;
  if ((leaves_norm || o.from != nullptr) && problem.result != Result::added) return false;
  return o.shift == nullptr || (problem.result != Result::gated && problem.columns % 4 == 0);
}

cudaError_t load() {
  for (int const rows : {16, 32, 64})
    for (auto const* const kernel : instance_of(rows).kernels) {
      if (auto const e =
              cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, k_most_shared);
          e != cudaSuccess)
        return e;
      if (auto const e = cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                              cudaSharedmemCarveoutMaxShared);
          e != cudaSuccess)
        return e;
    }
  return cudaSuccess;
}

cudaError_t launch(Problem const& problem, Config const& config, Operands const& operands,
                   cudaStream_t stream, bool early) {
  if (!supports(problem) || !allows(problem, config) || !takes(problem, operands))
    return cudaErrorInvalidValue;
  auto const layout = layout_of(problem, config);
  Parameters p;
  p.to = operands.to;
  p.from = operands.from != nullptr ? operands.from : static_cast<float const*>(operands.to);
  p.rows = problem.rows, p.columns = problem.columns, p.result = problem.result;
  p.tile = config.columns, p.split = config.split, p.steps = steps_of(problem, config);
  p.stages = config.stages, p.stage_depth = config.stage_depth;
  p.in_flight = in_flight_of(layout, config);
  p.stage_bytes = layout.stage, p.weights_bytes = layout.weights;
  p.box_rows = layout.rows, p.depth = problem.depth, p.of_depth = 1.0f / static_cast<float>(problem.depth);
  p.barriers_at = layout.barriers, p.scales_at = layout.scales, p.received_at = layout.received;
  p.norm = operands.norm, p.shift = operands.shift;
  p.rounded = operands.rounded, p.squares = operands.squares;
  // Weights by 128 bytes: by 256 the memory reads slower, even where a box takes both halves
  // (docs/design/notes-decode.md, "Weights by 128 bytes").
  if (!map_of(&p.weights, operands.weights, problem.columns, problem.depth, config.columns,
              config.stage_depth, CU_TENSOR_MAP_L2_PROMOTION_L2_128B) ||
      !map_of(&p.input, operands.input, problem.rows, problem.depth, p.box_rows, config.stage_depth,
              CU_TENSOR_MAP_L2_PROMOTION_L2_256B))
    return cudaErrorInvalidValue;
  gpu::Shape shape;
  shape.blocks = static_cast<unsigned>(blocks_of(problem, config));
  shape.threads = static_cast<unsigned>(warpgroups_of(config) * 128 + k_other_threads);
  shape.shared = static_cast<std::size_t>(layout.total);
  shape.cluster = static_cast<unsigned>(config.split);
  shape.programmatic = early;
  void* parameters[] = {&p};
  return gpu::try_launch(shape, stream, instance_of(problem.rows).kernels[warpgroups_of(config) - 1],
                         parameters);
}

}  // namespace tessera::skinny_gemm
