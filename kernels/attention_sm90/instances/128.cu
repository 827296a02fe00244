// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention_sm90/instance.cuh"

namespace tessera::attention_sm90 {

std::vector<Instance> instances_128() {
  return {instance<Shape<__nv_bfloat16, 128, false>>("attention_128"),
          instance<Shape<__half, 128, false>>("attention_128_fp16")};
}

}  // namespace tessera::attention_sm90
