// SPDX-License-Identifier: Apache-2.0
// A layer of a network in plain arithmetic on the CPU: fp32 sums, each result rounded to the type once.
#pragma once

#include <vector>

#include "kernels/networks/weights.hpp"

namespace tessera::networks {

/// What a layer writes for so many images. Channels of the input are padded() where it is the network's.
/// `residual`: null where it adds none. Runs on all of the host's cores.
std::vector<float> reference_layer(Network const& network, std::size_t layer, int images,
                                   std::vector<float> const& input, LayerWeights const& weights,
                                   std::vector<float> const* residual);

}  // namespace tessera::networks
