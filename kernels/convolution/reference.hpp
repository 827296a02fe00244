// SPDX-License-Identifier: Apache-2.0
// A chain of convolutions in plain arithmetic on the CPU: fp32 sums, each activation rounded to the chain's
// type once.
#pragma once

#include <vector>

#include "kernels/convolution/problem.hpp"

namespace tessera::convolution {

/// The nearest number of that type, ties to even; infinite beyond the largest.
float rounded(float value, ElementType type);

/// Of a layer. Empty: the layer has no bias.
struct LayerNumbers {
  std::vector<float> filter, bias;
};

/// What a layer writes. `residual`: null where it adds none.
std::vector<float> reference_layer(LayerChain const& chain, std::size_t layer,
                                   std::vector<float> const& input, LayerNumbers const& numbers,
                                   std::vector<float> const* residual);
/// The input, and what each layer writes. Precondition: check_chain(), and numbers of the type.
std::vector<std::vector<float>> reference_chain(LayerChain const& chain, std::vector<float> input,
                                                std::vector<LayerNumbers> const& numbers);

}  // namespace tessera::convolution
