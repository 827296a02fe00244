// SPDX-License-Identifier: Apache-2.0
#include "kernels/networks/network_time.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "kernels/convolution/chain_time.hpp"
#include "kernels/convolution/layer_cut.hpp"
#include "kernels/convolution/layer_time.hpp"

namespace tessera::networks {
namespace {

struct LayerKind {
  int height, width, channels, kernel, stride, padding, made, adds, relu;

  bool operator==(LayerKind const&) const = default;
};
constexpr std::array k_images = {1, 4, 16};
struct Measured {
  int height, width, channels, kernel, stride, padding, made, adds, relu;
  std::array<double, k_images.size()> us;

  LayerKind kind() const { return {height, width, channels, kernel, stride, padding, made, adds, relu}; }
};
constexpr Measured k_measured[] = {
#include "kernels/networks/cudnn_times.inc"
};

// Fitted to ResNet-38 in results/h200/networks.json: a layer among others, beside the same alone, again and
// again, whose weights and activations are in the L2.
constexpr double k_among_others_us = 0.25;
constexpr double k_chained_us = 0.4;  ///< the same, a layer in a chain
constexpr int k_sms = 132;
constexpr double k_cycles_per_us = 1755;
// Of pooling and padding: an empty kernel in a graph, and bytes, by ResNet-50's difference in the same
// record.
constexpr double k_pool_us = 2.5, k_pool_bytes_per_us = 1.5e6;

LayerKind as_kind(ImageSize const& input, convolution::Layer const& layer) {
  return {input.height,  input.width,    padded(input.channels),       layer.kernel,      layer.stride,
          layer.padding, layer.channels, layer.residual == -1 ? 0 : 1, layer.relu ? 1 : 0};
}

double copy_us(double bytes) { return k_pool_us + bytes / k_pool_bytes_per_us; }
double bytes_of(ImageSize size, int images) {
  size.channels = padded(size.channels);
  return 2.0 * images * static_cast<double>(size.elements());
}

double among_others_us(Network const& network, Step const& step) {
  if (step.launch) return 0;
  if (step.chain) return k_chained_us * static_cast<double>(step.end - step.first);
  return network.layers[step.first].kind == Kind::convolution ? k_among_others_us : 0;
}

}  // namespace

std::string kind_of(ImageSize const& input, convolution::Layer const& layer) {
  auto const k = as_kind(input, layer);
  return fmt::format("{} {} {} {} {} {} {} {} {}", k.height, k.width, k.channels, k.kernel, k.stride,
                     k.padding, k.made, k.adds, k.relu);
}

std::optional<double> cudnn_us(ImageSize const& input, convolution::Layer const& layer, int images) {
  auto const kind = as_kind(input, layer);
  auto const* const found = std::find_if(std::begin(k_measured), std::end(k_measured),
                                         [&](Measured const& one) { return one.kind() == kind; });
  if (found == std::end(k_measured) || images < 1) return std::nullopt;
  std::size_t upper = 1;
  while (upper + 1 < k_images.size() && images > k_images[upper]) ++upper;
  double const part = static_cast<double>(images - k_images[upper - 1]) /
                      static_cast<double>(k_images[upper] - k_images[upper - 1]);
  return found->us[upper - 1] + part * (found->us[upper] - found->us[upper - 1]);
}

std::optional<double> step_us(Network const& network, int images, Step const& step) {
  auto const sizes = sizes_of(network);
  auto const& layer = network.layers[step.first];
  auto const& input = sizes[static_cast<std::size_t>(layer.input)];
  if (step.launch) {
    auto const layer_chain = chain_of(network, images, step.first, step.end);
    if (!layer_chain) return std::nullopt;
    auto const parts = convolution::cut_layers(*layer_chain, k_sms);
    if (!parts) return std::nullopt;
    return parts->front().cut.price / k_cycles_per_us;
  }
  if (step.chain) {
    auto const chain = chain_of(network, images, step.first, step.end);
    if (!chain) return std::nullopt;
    auto const launches = convolution::cut_launches(*chain, {});
    if (!launches) return std::nullopt;
    return convolution::chain_us(*launches);
  }
  if (layer.kind != Kind::convolution)
    return copy_us(bytes_of(input, images) + bytes_of(sizes[step.first + 1], images));
  return cudnn_us(input, layer.layer, images);
}

std::optional<double> network_us(Network const& network, int images, std::vector<Step> const& steps) {
  double sum = 0;
  if (auto const& image = network.image; image.channels != padded(image.channels))
    sum += copy_us(2.0 * images * static_cast<double>(image.elements()) + bytes_of(image, images));
  bool launched = false;
  for (auto const& step : steps) {
    auto const us = step_us(network, images, step);
    if (!us) return std::nullopt;
    sum += *us + among_others_us(network, step);
    if (step.launch && !launched) sum += convolution::k_layer_begins_us;
    launched = step.launch;
  }
  return sum;
}

std::optional<std::vector<Step>> predicted_steps(Network const& network, int images, double least_gain) {
  auto const plain = steps_with(network, {});
  auto const plain_us = network_us(network, images, plain);
  if (!plain_us) return std::nullopt;
  auto mixed = cheapest_steps(
      network, possible_launches(network, images),
      [&](Step const& step) { return step_us(network, images, step).value_or(-1); },
      convolution::k_layer_begins_us);
  auto const mixed_us = network_us(network, images, mixed);
  if (!mixed_us || *mixed_us > (1 - least_gain) * *plain_us) return plain;
  return mixed;
}

std::vector<Step> usual_steps(Network const& network, int images) {
  return predicted_steps(network, images).value_or(steps_with(network, {}));
}

}  // namespace tessera::networks
