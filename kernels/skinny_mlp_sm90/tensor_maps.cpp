// SPDX-License-Identifier: Apache-2.0
#include "tensor_maps.hpp"

#include <cuda_runtime_api.h>

#include "cut.hpp"

namespace tessera::skinny_sm90 {
namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

/// The driver's function, without linking the driver.
Encode encoder() {
  static Encode const function = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result;
    auto const e =
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result);
    return e == cudaSuccess && result == cudaDriverEntryPointSuccess ? reinterpret_cast<Encode>(found)
                                                                     : nullptr;
  }();
  return function;
}

CUtensorMapDataType driver_type(mlp::ElementType type) {
  return type == mlp::ElementType::bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
}

constexpr cuuint32_t steps[] = {1, 1, 1};

bool encode(CUtensorMap* map, mlp::ElementType type, void const* matrix, cuuint32_t rank,
            cuuint64_t const* sizes, cuuint64_t const* strides, cuuint32_t const* box,
            CUtensorMapL2promotion promotion) {
  return encoder() != nullptr &&
         encoder()(map, driver_type(type), rank, const_cast<void*>(matrix), sizes, strides, box, steps,
                   CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, promotion,
                   CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

cuuint64_t wide(int value) { return static_cast<cuuint64_t>(value); }
cuuint32_t narrow(int value) { return static_cast<cuuint32_t>(value); }

}  // namespace

bool weights_map(CUtensorMap* map, mlp::ElementType type, void const* matrix, int rows, int depth,
                 int box_rows) {
  cuuint64_t const sizes[] = {wide(depth), wide(rows)};
  cuuint64_t const strides[] = {wide(depth) * 2};
  cuuint32_t const box[] = {depth_block, narrow(box_rows)};
  // 256 bytes would fetch what another block reads much later.
  return encode(map, type, matrix, 2, sizes, strides, box, CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
}

bool activations_map(CUtensorMap* map, mlp::ElementType type, void const* matrix, int tokens, int depth,
                     int box_rows, int stage_depth) {
  bool const whole = depth % depth_block == 0;
  cuuint64_t const sizes[] = {whole ? wide(depth_block) : wide(depth), wide(tokens),
                              whole ? wide(depth / depth_block) : 1};
  cuuint64_t const strides[] = {wide(depth) * 2, whole ? depth_block * 2 : wide(depth) * 2 * wide(tokens)};
  int const blocks = whole ? stage_depth : 1;
  cuuint32_t const box[] = {depth_block, narrow(box_rows), narrow(blocks)};
  return encode(map, type, matrix, 3, sizes, strides, box, CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
}

}  // namespace tessera::skinny_sm90
