// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention_sm90/instance.cuh"

namespace tessera::attention_sm90 {

std::vector<Instance> instances_80() {
  return {instance<Shape<__nv_bfloat16, 80, false>>("attention_80"),
          instance<Shape<__half, 80, false>>("attention_80_fp16")};
}

}  // namespace tessera::attention_sm90
