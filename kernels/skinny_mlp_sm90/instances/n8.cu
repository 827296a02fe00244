// SPDX-License-Identifier: Apache-2.0
#include "kernels/skinny_mlp_sm90/kernel.cuh"

namespace tessera::skinny_sm90 {

std::vector<Instance> instances_n8() { return {make_instance<Single<8, 2>::Multiplier>(8, 2)}; }

}  // namespace tessera::skinny_sm90
