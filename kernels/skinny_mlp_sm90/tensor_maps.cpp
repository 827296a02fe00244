// SPDX-License-Identifier: Apache-2.0
#include "tensor_maps.hpp"

#include "cut.hpp"
#include "src/gpu/tensor_map.hpp"

namespace tessera::skinny_sm90 {
namespace {

cuuint64_t wide(int value) { return static_cast<cuuint64_t>(value); }
cuuint32_t narrow(int value) { return static_cast<cuuint32_t>(value); }

}  // namespace

bool weights_map(CUtensorMap* map, mlp::ElementType type, void const* matrix, int rows, int depth,
                 int box_rows) {
  cuuint64_t const sizes[] = {wide(depth), wide(rows)};
  cuuint64_t const strides[] = {wide(depth) * 2};
  cuuint32_t const box[] = {depth_block, narrow(box_rows)};
  // 256 bytes would fetch what another block reads much later.
  return gpu::encode_tensor_map(map, type, matrix, 2, sizes, strides, box,
                                CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
}

bool activations_map(CUtensorMap* map, mlp::ElementType type, void const* matrix, int tokens, int depth,
                     int box_rows, int stage_depth) {
  bool const whole = depth % depth_block == 0;
  cuuint64_t const sizes[] = {whole ? wide(depth_block) : wide(depth), wide(tokens),
                              whole ? wide(depth / depth_block) : 1};
  cuuint64_t const strides[] = {wide(depth) * 2, whole ? depth_block * 2 : wide(depth) * 2 * wide(tokens)};
  int const blocks = whole ? stage_depth : 1;
  cuuint32_t const box[] = {depth_block, narrow(box_rows), narrow(blocks)};
  return gpu::encode_tensor_map(map, type, matrix, 3, sizes, strides, box,
                                CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
}

}  // namespace tessera::skinny_sm90
