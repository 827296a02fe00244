// SPDX-License-Identifier: Apache-2.0
#include "kernels/skinny_mlp_sm90/kernel.cuh"

namespace tessera::skinny_sm90 {

std::vector<Instance> instances_n128() { return {make_instance<Pair<2>::Multiplier>(128, 1)}; }

}  // namespace tessera::skinny_sm90
