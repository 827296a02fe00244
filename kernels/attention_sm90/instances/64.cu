// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention_sm90/instance.cuh"

namespace tessera::attention_sm90 {

std::vector<Instance> instances_64() {
  return {instance<Shape<__nv_bfloat16, 64, false>>("attention_64"),
          instance<Shape<__half, 64, false>>("attention_64_fp16")};
}

}  // namespace tessera::attention_sm90
