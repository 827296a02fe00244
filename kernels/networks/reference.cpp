// SPDX-License-Identifier: Apache-2.0
#include "kernels/networks/reference.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>

#include "kernels/convolution/reference.hpp"

namespace tessera::networks {
namespace {

std::vector<float> values_of(std::vector<std::uint16_t> const& bits, std::size_t first, std::size_t count,
                             ElementType type) {
  std::vector<float> result(bits.empty() ? 0 : count);
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = value_of(bits[first + i], type);
  return result;
}

/// Channels [first, end) of what a convolution writes, into their places.
void convolve(convolution::LayerChain const& whole, std::vector<float> const& input,
              LayerWeights const& weights, std::vector<float> const* residual, std::size_t first,
              std::size_t end, std::vector<float>& to) {
  auto chain = whole;
  auto& layer = chain.layers.front();
  auto const all = static_cast<std::size_t>(layer.channels), some = end - first;
  auto const each = weights.filter.size() / all;
  layer.channels = static_cast<int>(some);
  convolution::LayerNumbers const numbers{values_of(weights.filter, first * each, some * each, chain.type),
                                          values_of(weights.bias, first, some, chain.type)};
  auto const pixels = to.size() / all;
  std::vector<float> added;
  if (residual != nullptr)
    for (std::size_t pixel = 0; pixel < pixels; ++pixel)
      for (std::size_t c = first; c < end; ++c) added.push_back((*residual)[pixel * all + c]);
  auto const result =
      convolution::reference_layer(chain, 0, input, numbers, residual != nullptr ? &added : nullptr);
  for (std::size_t pixel = 0; pixel < pixels; ++pixel)
    std::copy_n(result.begin() + static_cast<std::ptrdiff_t>(pixel * some), some,
                to.begin() + static_cast<std::ptrdiff_t>(pixel * all + first));
}

std::vector<float> pooled(NetworkLayer const& layer, int images, ImageSize const& from, ImageSize const& to,
                          std::vector<float> const& input, ElementType type) {
  bool const largest = layer.kind == Kind::max_pool;
  auto const& l = layer.layer;
  std::vector<float> result;
  for (int image = 0; image < images; ++image)
    for (int y = 0; y < to.height; ++y)
      for (int x = 0; x < to.width; ++x)
        for (int c = 0; c < to.channels; ++c) {
          // The average is of the whole image.
          int const top = largest ? y * l.stride - l.padding : 0,
                    left = largest ? x * l.stride - l.padding : 0;
          int const bottom = largest ? top + l.kernel : from.height,
                    right = largest ? left + l.kernel : from.width;
          float best = -std::numeric_limits<float>::infinity(), sum = 0;
          for (int row = std::max(top, 0); row < std::min(bottom, from.height); ++row)
            for (int column = std::max(left, 0); column < std::min(right, from.width); ++column) {
              auto const at = ((static_cast<std::size_t>(image) * static_cast<std::size_t>(from.height) +
                                static_cast<std::size_t>(row)) *
                                   static_cast<std::size_t>(from.width) +
                               static_cast<std::size_t>(column)) *
                                  static_cast<std::size_t>(from.channels) +
                              static_cast<std::size_t>(c);
              float const value = input[at];
              if (value > best || std::isnan(value)) best = value;
              sum += value;
            }
          result.push_back(
              largest ? best
                      : convolution::rounded(sum / static_cast<float>(from.height * from.width), type));
        }
  return result;
}

}  // namespace

std::vector<float> reference_layer(Network const& network, std::size_t n, int images,
                                   std::vector<float> const& input, LayerWeights const& weights,
                                   std::vector<float> const* residual) {
  auto const sizes = sizes_of(network);
  auto const& layer = network.layers[n];
  auto const& from = sizes[static_cast<std::size_t>(layer.input)];
  auto const& to = sizes[n + 1];
  if (layer.kind != Kind::convolution) return pooled(layer, images, from, to, input, network.type);
  convolution::LayerChain const chain{images,        from.height, from.width, padded(from.channels),
                                      {layer.layer}, network.type};
  std::vector<float> result(static_cast<std::size_t>(images * to.elements()));
  auto const channels = static_cast<std::size_t>(to.channels);
  auto const threads = std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, channels);
  std::vector<std::thread> all;
  for (std::size_t t = 0; t < threads; ++t)
    all.emplace_back([&, t] {
      auto const first = t * channels / threads, end = (t + 1) * channels / threads;
      if (first < end) convolve(chain, input, weights, residual, first, end, result);
    });
  for (auto& one : all) one.join();
  return result;
}

}  // namespace tessera::networks
