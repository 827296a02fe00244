// SPDX-License-Identifier: Apache-2.0
// A chain of convolutions: what is computed, without a GPU. Activations are [image][row][column][channel],
// filters [channel out][row][column][channel in].
#pragma once

#include <string>
#include <tessera/diagnostic.hpp>
#include <vector>

#include "src/gpu/element_type.hpp"

namespace tessera::convolution {

using gpu::ElementType;

constexpr int k_chunk = 64;  ///< channels that are loaded and multiplied at a time
constexpr int k_most_layers = 64;
constexpr int k_most_channels = 4096;
constexpr int k_most_edge = 1024;  ///< pixels of a row or a column
constexpr int k_most_images = 1024;
constexpr int k_given_residual = -2;  ///< Layer::residual: memory that comes with the layer's buffers

/// y = relu(filter * x + bias + residual), fp32 sums, rounded once.
struct Layer {
  int channels = 64;  ///< out
  int kernel = 3;     ///< rows and columns of the filter: 1, 3 or 5
  int stride = 1;     ///< 1 or 2
  int padding = 1;    ///< zeros around each image, at most half of the kernel
  bool bias = true;
  bool relu = true;
  /// Which activation is added: 0 is the chain's input, n what layer n - 1 writes. It is older than the
  /// layer's own input. -1: none. k_given_residual: an activation that is none of the chain's.
  int residual = -1;

  bool operator==(Layer const&) const = default;
};

struct LayerChain {
  int images = 1, height = 1, width = 1, channels = 64;  ///< of the input
  std::vector<Layer> layers;
  ElementType type = ElementType::fp16;
};

/// Of one image.
struct ImageSize {
  int height = 0, width = 0, channels = 0;

  long long elements() const { return 1LL * height * width * channels; }
  bool operator==(ImageSize const&) const = default;
};

/// What a layer makes of images of such a size.
ImageSize output_size(ImageSize const& input, Layer const& layer);
/// The chain's input, and what each layer writes. Precondition: check_chain().
std::vector<ImageSize> sizes_of(LayerChain const& chain);
/// Elements of an activation of all images, and of a layer's filters.
long long activation_elements(LayerChain const& chain, ImageSize const& size);
long long filter_elements(ImageSize const& input, Layer const& layer);
double flops_of(LayerChain const& chain);

/// Refuses (E0567) what no chain is for, and names the layer.
Expected<void> check_chain(LayerChain const& chain);

/// `layers` layers of one size with 3x3 filters: the input's.
LayerChain same_size(int images, int edge, int channels, int layers, ElementType type = ElementType::fp16);
std::string name_of(ElementType type);  ///< "fp16"
/// "2 convolutions of 4 images of 14x14x256, fp16".
std::string to_string(LayerChain const& chain);

}  // namespace tessera::convolution
