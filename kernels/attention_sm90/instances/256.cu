// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention_sm90/instance.cuh"

namespace tessera::attention_sm90 {

std::vector<Instance> instances_256() {
  return {instance<Shape<__nv_bfloat16, 256, false>>("attention_256"),
          instance<Shape<__half, 256, false>>("attention_256_fp16")};
}

}  // namespace tessera::attention_sm90
