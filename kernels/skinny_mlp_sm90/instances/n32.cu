// SPDX-License-Identifier: Apache-2.0
#include "kernels/skinny_mlp_sm90/kernel.cuh"

namespace tessera::skinny_sm90 {

std::vector<Instance> instances_n32() { return {make_instance<Single<32, 2>::Multiplier>(32, 2)}; }

}  // namespace tessera::skinny_sm90
