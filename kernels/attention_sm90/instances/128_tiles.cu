// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention_sm90/instance.cuh"

namespace tessera::attention_sm90 {

std::vector<Instance> instances_128_tiles() {
  return {instance<Shape<__nv_bfloat16, 128, false, 1>>("attention_128_64"),
          instance<Shape<__nv_bfloat16, 128, false, 3>>("attention_128_192")};
}

}  // namespace tessera::attention_sm90
