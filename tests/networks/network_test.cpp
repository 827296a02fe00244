// SPDX-License-Identifier: Apache-2.0
// The shipped networks against figures worked out by hand, and what a network may not be (E0573).
#include "kernels/networks/network.hpp"

#include <gmock/gmock.h>

namespace tessera::networks {
namespace {

NetworkLayer const& layer_named(Network const& network, std::string const& name) {
  for (auto const& one : network.layers)
    if (one.name == name) return one;
  throw std::runtime_error(name);
}
ImageSize size_behind(Network const& network, std::string const& name) {
  for (std::size_t n = 0; n < network.layers.size(); ++n)
    if (network.layers[n].name == name) return sizes_of(network)[n + 1];
  throw std::runtime_error(name);
}
long long parameters(Network const& network) {
  auto const sizes = sizes_of(network);
  long long sum = 0;
  for (auto const& layer : network.layers)
    if (layer.kind == Kind::convolution)
      sum += 1LL * layer.layer.channels *
             (1LL * layer.layer.kernel * layer.layer.kernel *
              sizes[static_cast<std::size_t>(layer.input)].channels);
  return sum;
}

TEST(Network, Names) {
  for (auto const& name : network_names()) {
    auto const network = network_named(name);
    ASSERT_TRUE(network) << name;
    EXPECT_EQ(network->name, name);
    EXPECT_TRUE(check_network(*network, 1)) << name;
  }
  auto const none = network_named("resnet-51");
  ASSERT_FALSE(none);
  EXPECT_EQ(to_text(none.error()),
            "error E0573: there is no network \"resnet-51\"\n   hint: one of resnet-38, vgg-19, resnet-50");
}

TEST(Network, ResNet38) {
  auto const network = resnet_38();
  ASSERT_EQ(network.layers.size(), 32u);
  EXPECT_EQ(size_behind(network, "stage1.2.conv2"), (ImageSize{56, 56, 64}));
  EXPECT_EQ(size_behind(network, "stage2.0.conv1"), (ImageSize{28, 28, 128}));
  EXPECT_EQ(size_behind(network, "stage4.2.conv2"), (ImageSize{7, 7, 512}));
  // All but the first of stages 2 to 4 are 231 MFLOP an image; those have half of the channels in.
  EXPECT_DOUBLE_EQ(flops_of(network), (32 - 1.5) * 2.0 * 56 * 56 * 64 * 64 * 9);
  EXPECT_EQ(layer_named(network, "stage2.0.conv2").layer.residual, -1);
  EXPECT_EQ(layer_named(network, "stage2.1.conv2").layer.residual, 8);
}

TEST(Network, Vgg19) {
  auto const network = vgg_19();
  EXPECT_EQ(network.layers.size(), 15u);
  EXPECT_EQ(size_behind(network, "pool1"), (ImageSize{28, 28, 64}));
  EXPECT_EQ(size_behind(network, "stage4.conv4"), (ImageSize{7, 7, 512}));
  EXPECT_DOUBLE_EQ(flops_of(network), (12 - 1.5) * 2.0 * 56 * 56 * 64 * 64 * 9);
}

TEST(Network, ResNet50) {
  auto const network = resnet_50();
  // Stem, pooling, 16 bottlenecks of three, four projections, average, classifier.
  EXPECT_EQ(network.layers.size(), 2u + 48 + 4 + 2);
  EXPECT_EQ(size_behind(network, "conv1"), (ImageSize{112, 112, 64}));
  EXPECT_EQ(size_behind(network, "maxpool"), (ImageSize{56, 56, 64}));
  EXPECT_EQ(size_behind(network, "layer1.0.conv3"), (ImageSize{56, 56, 256}));
  EXPECT_EQ(size_behind(network, "layer2.0.conv1"), (ImageSize{56, 56, 128}));
  EXPECT_EQ(size_behind(network, "layer2.0.conv2"), (ImageSize{28, 28, 128}));
  EXPECT_EQ(size_behind(network, "layer4.2.conv3"), (ImageSize{7, 7, 2048}));
  EXPECT_EQ(size_behind(network, "avgpool"), (ImageSize{1, 1, 2048}));
  EXPECT_EQ(size_behind(network, "fc"), (ImageSize{1, 1, 1000}));
  // torchvision's 25557032 parameters are these, 1000 biases of the classifier, and scale and shift of the
  // batch norms' 26560 channels.
  EXPECT_EQ(parameters(network), 25557032 - 1000 - 2 * 26560);
  EXPECT_NEAR(flops_of(network) / 2e9, 4.09, 0.005);  // its "GFLOPS", which are multiplications
  for (auto const& one : network.layers)
    if (one.kind == Kind::convolution) {
      bool const last_in_line = one.name.find("downsample") != std::string::npos || one.name == "fc";
      EXPECT_EQ(one.layer.relu, !last_in_line) << one.name;
    }
  auto const& last = layer_named(network, "layer2.0.conv3");
  EXPECT_EQ(network.layers[static_cast<std::size_t>(last.layer.residual) - 1].name, "layer2.0.downsample.0");
  EXPECT_EQ(network.layers[static_cast<std::size_t>(layer_named(network, "layer2.0.conv1").input) - 1].name,
            "layer1.2.conv3");
}

void expect_refused(Network const& network, int images, std::string const& text) {
  auto const ok = check_network(network, images);
  ASSERT_FALSE(ok) << text;
  EXPECT_EQ(to_text(ok.error()), "error E0573: " + text);
}

TEST(Network, Refusals) {
  expect_refused(resnet_38(), 1025, "a network for 1025 images\n   hint: ask for 1 to 1024");
  expect_refused(with_edge(resnet_38(), 0), 1,
                 "images of 0 x 0 pixels\n   hint: ask for 1 to 1024 rows and columns");
  expect_refused({"none", {1, 1, 64}, {}}, 1, "a network of 0 layers\n   hint: ask for 1 to 1024");
  auto const refused = [](auto const& change, std::string const& text) {
    auto network = vgg_19();
    change(network.layers[1]);
    auto const hint = text.find("\n");
    expect_refused(network, 1,
                   text.substr(0, hint) + "\n   layer 1 of vgg-19, stage1.conv2" + text.substr(hint));
  };
  refused([](auto& l) { l.layer.kernel = 13; }, "a filter of 13x13 pixels\n   hint: ask for 1x1 to 11x11");
  refused([](auto& l) { l.layer.stride = 5; }, "a stride of 5\n   hint: ask for 1 to 4");
  refused([](auto& l) { l.layer.padding = 2; },
          "2 zeros around an image for 3x3 pixels\n   hint: ask for 0 to 1");
  refused([](auto& l) { l.layer.channels = 65; },
          "a layer to 65 channels\n   hint: ask for multiples of 8 up to 4096: pad with zeros");
  refused([](auto& l) { l.input = 2; },
          "an input of activation 2\n   hint: 0 is the network's input, n what layer n - 1 writes");
  refused([](auto& l) { l.layer.residual = 2; },
          "a residual of activation 2\n   hint: add one that a layer before writes, to a convolution");
  refused([](auto& l) { l.layer.channels = 128, l.layer.residual = 0; },
          "a residual of 56x56x64 to results of 56x56x128\n   hint: add an activation of the same size");
  expect_refused(
      with_edge(resnet_38(), 1000), 1000,
      "64000000000 elements of a layer's result\n   layer 0 of resnet-38, stage1.0.conv1\n   hint: "
      "ask for fewer than 2^31: fewer images, or smaller ones");
  expect_refused(with_edge(vgg_19(), 4), 1,
                 "2x2 pixels of images of 1x1\n   layer 10 of vgg-19, pool3\n   hint: ask for larger images");
}

}  // namespace
}  // namespace tessera::networks
