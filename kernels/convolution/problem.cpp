// SPDX-License-Identifier: Apache-2.0
#include "kernels/convolution/problem.hpp"

#include <fmt/format.h>

namespace tessera::convolution {
namespace {

constexpr long long k_most_elements = 1LL << 31;

Expected<void> refused(int layer, std::string message, std::string way_out) {
  Diagnostic one{"E0567", Severity::error, {}, std::move(message), {}, std::move(way_out)};
  if (layer >= 0) one.notes.push_back(fmt::format("layer {} of the chain", layer));
  return refuse(std::move(one));
}

Expected<void> check_input(LayerChain const& c) {
  if (c.images < 1 || c.images > k_most_images)
    return refused(-1, fmt::format("convolutions of {} images", c.images),
                   fmt::format("ask for 1 to {}", k_most_images));
  for (int const edge : {c.height, c.width})
    if (edge < 1 || edge > k_most_edge)
      return refused(-1, fmt::format("convolutions of images of {} x {} pixels", c.height, c.width),
                     fmt::format("ask for 1 to {} rows and columns", k_most_edge));
  if (c.channels < k_chunk || c.channels > k_most_channels || c.channels % k_chunk != 0)
    return refused(-1, fmt::format("convolutions of {} channels", c.channels),
                   fmt::format("ask for multiples of {} up to {}: pad with zeros", k_chunk, k_most_channels));
  if (c.layers.empty() || c.layers.size() > k_most_layers)
    return refused(-1, fmt::format("a chain of {} convolutions", c.layers.size()),
                   fmt::format("ask for 1 to {}", k_most_layers));
  return {};
}

Expected<void> check_layer(int number, Layer const& layer, std::vector<ImageSize> const& before, int images) {
  if (layer.kernel != 1 && layer.kernel != 3 && layer.kernel != 5)
    return refused(number, fmt::format("a filter of {0}x{0} pixels", layer.kernel),
                   "ask for 1x1, 3x3 or 5x5");
  if (layer.stride != 1 && layer.stride != 2)
    return refused(number, fmt::format("a convolution of stride {}", layer.stride), "ask for 1 or 2");
  if (layer.padding < 0 || layer.padding > layer.kernel / 2)
    return refused(
        number, fmt::format("{0} zeros around an image for a filter of {1}x{1}", layer.padding, layer.kernel),
        fmt::format("ask for 0 to {}", layer.kernel / 2));
  if (layer.channels < k_chunk || layer.channels > k_most_channels || layer.channels % k_chunk != 0)
    return refused(number, fmt::format("a convolution to {} channels", layer.channels),
                   fmt::format("ask for multiples of {} up to {}: pad with zeros", k_chunk, k_most_channels));
  auto const& input = before.back();
  if (input.height + 2 * layer.padding < layer.kernel || input.width + 2 * layer.padding < layer.kernel)
    return refused(number,
                   fmt::format("a filter of {0}x{0} on {1} x {2} pixels with {3} zeros around them",
                               layer.kernel, input.height, input.width, layer.padding),
                   "ask for more padding, or a smaller filter");
  auto const output = output_size(input, layer);
  if (images * output.elements() >= k_most_elements)
    return refused(number, fmt::format("{} elements of a convolution's result", images * output.elements()),
                   "ask for fewer than 2^31");
  if (layer.residual < 0) return {};
  if (layer.residual >= number)
    return refused(number, fmt::format("a residual of activation {}", layer.residual),
                   "add one that is older than the layer's input: 0 is the chain's input, n what layer n - 1 "
                   "writes");
  if (auto const& added = before[static_cast<std::size_t>(layer.residual)]; !(added == output))
    return refused(number,
                   fmt::format("a residual of {}x{}x{} to results of {}x{}x{}", added.height, added.width,
                               added.channels, output.height, output.width, output.channels),
                   "add an activation of the same size");
  return {};
}

}  // namespace

ImageSize output_size(ImageSize const& input, Layer const& layer) {
  auto const edge = [&](int pixels) {
    return (pixels + 2 * layer.padding - layer.kernel) / layer.stride + 1;
  };
  return {edge(input.height), edge(input.width), layer.channels};
}

std::vector<ImageSize> sizes_of(LayerChain const& chain) {
  std::vector<ImageSize> result = {{chain.height, chain.width, chain.channels}};
  for (auto const& layer : chain.layers) result.push_back(output_size(result.back(), layer));
  return result;
}

long long activation_elements(LayerChain const& chain, ImageSize const& size) {
  return chain.images * size.elements();
}
long long filter_elements(ImageSize const& input, Layer const& layer) {
  return 1LL * layer.channels * layer.kernel * layer.kernel * input.channels;
}

double flops_of(LayerChain const& chain) {
  auto const sizes = sizes_of(chain);
  double sum = 0;
  for (std::size_t l = 0; l < chain.layers.size(); ++l)
    sum += 2.0 * chain.images * sizes[l + 1].height * sizes[l + 1].width *
           static_cast<double>(filter_elements(sizes[l], chain.layers[l]));
  return sum;
}

Expected<void> check_chain(LayerChain const& chain) {
  if (auto ok = check_input(chain); !ok) return ok;
  std::vector<ImageSize> sizes = {{chain.height, chain.width, chain.channels}};
  if (chain.images * sizes.front().elements() >= k_most_elements)
    return refused(-1, fmt::format("{} elements of a chain's input", chain.images * sizes.front().elements()),
                   "ask for fewer than 2^31");
  for (std::size_t l = 0; l < chain.layers.size(); ++l) {
    if (auto ok = check_layer(static_cast<int>(l), chain.layers[l], sizes, chain.images); !ok) return ok;
    sizes.push_back(output_size(sizes.back(), chain.layers[l]));
  }
  return {};
}

LayerChain same_size(int images, int edge, int channels, int layers, ElementType type) {
  Layer layer;
  layer.channels = channels;
  return {images, edge, edge, channels, std::vector<Layer>(static_cast<std::size_t>(layers), layer), type};
}

std::string name_of(ElementType type) { return type == ElementType::fp16 ? "fp16" : "bf16"; }

std::string to_string(LayerChain const& chain) {
  return fmt::format("{} convolution{} of {} image{} of {}x{}x{}, {}", chain.layers.size(),
                     chain.layers.size() == 1 ? "" : "s", chain.images, chain.images == 1 ? "" : "s",
                     chain.height, chain.width, chain.channels, name_of(chain.type));
}

}  // namespace tessera::convolution
