// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention_sm90/instance.cuh"

namespace tessera::attention_sm90 {

std::vector<Instance> instances_96() {
  return {instance<Shape<__nv_bfloat16, 96, false>>("attention_96"),
          instance<Shape<__half, 96, false>>("attention_96_fp16")};
}

}  // namespace tessera::attention_sm90
