// SPDX-License-Identifier: Apache-2.0
#include "variants.hpp"

#include "kernels/attention_sm90/instance.cuh"

namespace tessera::attention_sm90 {

std::vector<Instance> variants(int head_size) {
  using Type = __nv_bfloat16;
  switch (head_size) {
    case 64:
      return {instance<Shape<Type, 64, false, 128, 3, false>>("without turns"),
              instance<Shape<Type, 64, false, 64, 6, true>>("64 keys")};
    case 80: return {instance<Shape<Type, 80, false>>("80 columns")};
    case 96: return {instance<Shape<Type, 96, false>>("96 columns")};
    case 128:
      return {instance<Shape<Type, 128, false, 128, 2, false>>("without turns"),
              instance<Shape<Type, 128, false, 64, 4, true>>("64 keys")};
    case 256: return {instance<Shape<Type, 256, false, 64, 2, false>>("without turns")};
    default: return {};
  }
}

}  // namespace tessera::attention_sm90
