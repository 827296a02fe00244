// SPDX-License-Identifier: Apache-2.0
#include "kernels/skinny_mlp_sm90/kernel.cuh"

namespace tessera::skinny_sm90 {

std::vector<Instance> instances_n16() { return {make_instance<Single<16, 2>::Multiplier>(16, 2)}; }

}  // namespace tessera::skinny_sm90
