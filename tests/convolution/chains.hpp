// SPDX-License-Identifier: Apache-2.0
// Chains of convolutions that tests cut and plan: the sizes of residual networks, and odd ones.
#pragma once

#include "kernels/convolution/chain_plan.hpp"
#include "support/assert_ok.hpp"
#include "tessera/plan/check_rings.hpp"

namespace tessera::convolution {

inline Layer layer(int channels, int kernel, int stride, int padding) {
  Layer result;
  result.channels = channels, result.kernel = kernel, result.stride = stride, result.padding = padding;
  return result;
}

/// A stage of a residual network: 1x1 to fewer channels, 3x3, 1x1 back and the sum; then a smaller image.
inline LayerChain bottleneck(int images) {
  LayerChain result{images, 15, 13, 256, {layer(64, 1, 1, 0), layer(64, 3, 1, 1), layer(256, 1, 1, 0)}};
  result.layers.back().residual = 0;
  result.layers.push_back(layer(128, 3, 2, 1));
  result.layers.push_back(layer(128, 5, 1, 2));
  result.layers.push_back(layer(64, 1, 2, 0));
  return result;
}

inline std::vector<LayerChain> chains() {
  std::vector<LayerChain> result;
  for (int const images : {1, 3, 8})
    for (auto const& [edge, channels] :
         {std::pair{56, 64}, {28, 128}, {14, 256}, {7, 512}, {57, 64}, {9, 128}})
      result.push_back(same_size(images, edge, channels, 2));
  result.push_back(same_size(32, 7, 512, 2));
  result.push_back(same_size(32, 14, 256, 3));
  result.push_back(same_size(1, 1, 64, 2));
  result.push_back(bottleneck(1));
  result.push_back(bottleneck(5));
  return result;
}

/// `body(image, y, x)` for the pixels of a tile that the result has.
template <class Body>
void for_each_pixel(ConvStage const& s, TilePlace const& at, Body const& body) {
  for (int n = 0; n < s.cut.box_images; ++n)
    for (int y = 0; y < s.cut.box_height; ++y)
      for (int x = 0; x < s.cut.box_width; ++x) {
        int const image = at.image * s.cut.box_images + n, row = at.y * s.cut.box_height + y,
                  column = at.x * s.cut.box_width + x;
        if (image < s.images && row < s.height && column < s.width) body(image, row, column);
      }
}

}  // namespace tessera::convolution
