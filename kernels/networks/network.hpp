// SPDX-License-Identifier: Apache-2.0
// A network of convolutions: what is computed, as plain values, without a GPU. Activations are
// [image][row][column][channel]; activation 0 is the network's input, activation n what layer n - 1 writes.
#pragma once

#include <string>
#include <tessera/diagnostic.hpp>
#include <vector>

#include "kernels/convolution/problem.hpp"

namespace tessera::networks {

using convolution::ElementType;
using convolution::ImageSize;

constexpr int k_most_layers = 1024;
/// An image's channels are padded with zeros to a multiple of so many: cuDNN's matrix instructions and the
/// copies of pooling take so many at a time.
constexpr int k_channel_group = 8;

enum class Kind {
  convolution,   ///< also the classifier: 1x1 on an image of one pixel
  max_pool,      ///< of `kernel` x `kernel` pixels; what lies around an image is never the largest
  average_pool,  ///< of all pixels of an image, to one
};

struct NetworkLayer {
  std::string name;  ///< as the tensors of its weights begin: "layer1.0.conv1"
  Kind kind = Kind::convolution;
  int input = 0;  ///< an activation
  /// Of a convolution all; of max pooling kernel, stride and padding. `residual`: an activation that is added
  /// before ReLU; -1: none.
  convolution::Layer layer;
  std::string norm;  ///< how the tensors of the batch norm behind it begin; empty: it has none

  bool operator==(NetworkLayer const&) const = default;
};

struct Network {
  std::string name;
  ImageSize image;  ///< of the input
  std::vector<NetworkLayer> layers;
  ElementType type = ElementType::fp16;
};

/// The 32 convolutions of a residual network, two to a layer: 3, 4, 6 and 3 layers of 56x56x64, 28x28x128,
/// 14x14x256 and 7x7x512, each but the first of a stage with a residual. The first convolution of a stage has
/// stride 2. No stem and no classifier.
Network resnet_38();
/// The twelve convolutions of 2, 2, 4 and 4 layers of the same sizes, with 2x2 max pooling between.
Network vgg_19();
/// ResNet-50 as torchvision has it: stem, max pooling, 16 bottlenecks, average pooling, classifier.
Network resnet_50();
/// E0573 for other names.
Expected<Network> network_named(std::string const& name);
/// The names of all of them.
std::vector<std::string> network_names();

/// The same network for images of other rows and columns.
Network with_edge(Network network, int edge);

/// What a layer makes of images of such a size.
ImageSize output_size(ImageSize const& input, NetworkLayer const& layer);
/// Of each activation, the input's channels as they are. Precondition: check_network().
std::vector<ImageSize> sizes_of(Network const& network);
/// Channels as they lie in memory.
int padded(int channels);
/// Elements of a layer's filters, padded: [channel out][row][column][channel in].
long long filter_elements(ImageSize const& input, NetworkLayer const& layer);
/// Of the convolutions, for one image.
double flops_of(Network const& network);

/// E0573, with the layer, for what a network may not be.
Expected<void> check_network(Network const& network, int images);

/// "3x3 convolution to 128 channels, stride 2", "max pooling of 3x3 pixels, stride 2".
std::string to_string(NetworkLayer const& layer);

}  // namespace tessera::networks
