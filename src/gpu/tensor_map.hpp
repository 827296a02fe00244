// SPDX-License-Identifier: Apache-2.0
// Descriptions of arrays of 16-bit numbers for the copy engine, whose rows land in shared memory swizzled in
// patterns of 8 rows of 128 bytes, or as they are.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "driver_function.hpp"
#include "element_type.hpp"

namespace tessera::gpu {

/// The driver's function, without linking the driver; null if it has none.
inline auto tensor_map_encoder() {
  using Encode = decltype(&cuTensorMapEncodeTiled);
  static auto const function = driver_function<Encode>("cuTensorMapEncodeTiled", 12000);
  return function;
}

/// Sizes and box in elements, the fastest dimension first; strides in bytes, of all dimensions but the first.
/// What lies outside reads as zeros. False if the driver refuses.
inline bool encode_tensor_map(CUtensorMap* map, ElementType type, void const* array, cuuint32_t rank,
                              cuuint64_t const* sizes, cuuint64_t const* strides, cuuint32_t const* box,
                              CUtensorMapL2promotion promotion,
                              CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_128B) {
  constexpr cuuint32_t steps[] = {1, 1, 1, 1, 1};
  auto const of =
      type == ElementType::bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  auto const encode = tensor_map_encoder();
  return encode != nullptr && encode(map, of, rank, const_cast<void*>(array), sizes, strides, box, steps,
                                     CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, promotion,
                                     CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

}  // namespace tessera::gpu
