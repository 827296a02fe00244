// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention_sm90/instance.cuh"

namespace tessera::attention_sm90 {

std::vector<Instance> instances_dropout() {
  return {instance<Shape<__nv_bfloat16, 64, true>>("attention_64_dropout"),
          instance<Shape<__nv_bfloat16, 128, true>>("attention_128_dropout")};
}

}  // namespace tessera::attention_sm90
