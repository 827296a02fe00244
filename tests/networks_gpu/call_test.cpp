// SPDX-License-Identifier: Apache-2.0
// What ConvNetwork::make() refuses before it asks for a GPU (E0573).
#include <gmock/gmock.h>

#include "kernels/networks/conv_network.hpp"

namespace tessera::networks {
namespace {

void expect_refused(Network const& network, NetworkWeights const& weights, int images,
                    NetworkOptions const& options, std::string const& text) {
  auto const made = ConvNetwork::make(network, weights, images, options, nullptr);
  ASSERT_FALSE(made) << text;
  EXPECT_EQ(to_text(made.error()), text);
}

TEST(NetworkCall, SizesAndWeights) {
  auto const network = with_edge(vgg_19(), 16);
  auto weights = random_weights(network, 1);
  expect_refused(network, weights, 0, {}, "error E0573: a network for 0 images\n   hint: ask for 1 to 1024");
  weights.layers[3].bias.pop_back();
  expect_refused(network, weights, 1, {},
                 "error E0573: a filter of 73728 and a bias of 127 numbers for stage2.conv1, which has 73728 "
                 "and 128\n   hint: see LayerWeights: channels in are padded to multiples of 8");
  weights.layers.pop_back();
  expect_refused(network, weights, 1, {},
                 "error E0573: weights of 14 layers for a network of 15\n   hint: give filter and bias for "
                 "each, empty for pooling");
}

TEST(NetworkCall, Steps) {
  auto const network = with_edge(vgg_19(), 16);
  auto const weights = random_weights(network, 1);
  NetworkOptions options;
  options.steps = std::vector<Step>{{0, 2, false}};
  expect_refused(
      network, weights, 1, options,
      "error E0573: a step of layers 0 to 2 where layer 0 is next\n   hint: name all layers in order, "
      "several only as a chain");
  options.steps = std::vector<Step>{{0, 3, true}};
  expect_refused(network, weights, 1, options,
                 "error E0573: a chain with layer 2, pool1\n   hint: end it before layers that are no "
                 "convolutions, or that read something older");
}

}  // namespace
}  // namespace tessera::networks
