// SPDX-License-Identifier: Apache-2.0
#include "kernels/networks/network.hpp"

#include <fmt/format.h>

namespace tessera::networks {
namespace {

using convolution::Layer;

constexpr int k_most_kernel = 11, k_most_stride = 4;
constexpr long long k_most_elements = 1LL << 31;

tl::unexpected<Diagnostics> refused(std::string message, std::string way_out, std::string note = {}) {
  Diagnostic one{"E0573", Severity::error, {}, std::move(message), {}, std::move(way_out)};
  if (!note.empty()) one.notes.push_back(std::move(note));
  return refuse(std::move(one));
}

/// Layers one behind the other.
class Builder {
 public:
  explicit Builder(Network& network) : network_(network) {}

  /// The activation that the last layer writes.
  int last() const { return static_cast<int>(network_.layers.size()); }
  int convolve(std::string name, int input, Layer const& layer, std::string norm = {}) {
    network_.layers.push_back({std::move(name), Kind::convolution, input, layer, std::move(norm)});
    return last();
  }
  int pool(std::string name, Kind kind, int kernel, int stride, int padding) {
    Layer layer;
    layer.kernel = kernel, layer.stride = stride, layer.padding = padding;
    layer.bias = layer.relu = false;
    network_.layers.push_back({std::move(name), kind, last(), layer, {}});
    return last();
  }

 private:
  Network& network_;
};

Layer convolution_of(int channels, int kernel, int stride = 1, bool relu = true) {
  Layer layer;
  layer.channels = channels, layer.kernel = kernel, layer.stride = stride;
  layer.padding = kernel / 2, layer.relu = relu;
  return layer;
}

/// Three convolutions, and one more for the residual where its size changes.
void add_bottleneck(Builder& network, std::string const& name, int channels, int stride, bool projects) {
  int const input = network.last();
  int residual = input;
  auto const at = [&](char const* layer) { return name + "." + layer; };
  if (projects)
    residual = network.convolve(at("downsample.0"), input, convolution_of(4 * channels, 1, stride, false),
                                at("downsample.1"));
  int const narrow = network.convolve(at("conv1"), input, convolution_of(channels, 1), at("bn1"));
  int const middle = network.convolve(at("conv2"), narrow, convolution_of(channels, 3, stride), at("bn2"));
  auto last = convolution_of(4 * channels, 1);
  last.residual = residual;
  network.convolve(at("conv3"), middle, last, at("bn3"));
}

Expected<void> check_convolution(Layer const& layer, ImageSize const& input, std::string const& where) {
  if (layer.kernel < 1 || layer.kernel > k_most_kernel)
    return refused(fmt::format("a filter of {0}x{0} pixels", layer.kernel),
                   fmt::format("ask for 1x1 to {0}x{0}", k_most_kernel), where);
  if (layer.stride < 1 || layer.stride > k_most_stride)
    return refused(fmt::format("a stride of {}", layer.stride), fmt::format("ask for 1 to {}", k_most_stride),
                   where);
  if (layer.padding < 0 || layer.padding > layer.kernel / 2)
    return refused(fmt::format("{0} zeros around an image for {1}x{1} pixels", layer.padding, layer.kernel),
                   fmt::format("ask for 0 to {}", layer.kernel / 2), where);
  if (input.height + 2 * layer.padding < layer.kernel || input.width + 2 * layer.padding < layer.kernel)
    return refused(
        fmt::format("{0}x{0} pixels of images of {1}x{2}", layer.kernel, input.height, input.width),
        "ask for larger images", where);
  return {};
}

}  // namespace

Network resnet_38() {
  Network network{"resnet-38", {56, 56, 64}, {}};
  Builder builder(network);
  int const blocks[] = {3, 4, 6, 3};
  for (int stage = 0; stage < 4; ++stage)
    for (int block = 0; block < blocks[stage]; ++block) {
      int const input = builder.last(), channels = 64 << stage;
      auto const name = fmt::format("stage{}.{}.conv", stage + 1, block);
      bool const narrows = stage > 0 && block == 0;
      int const middle = builder.convolve(name + "1", input, convolution_of(channels, 3, narrows ? 2 : 1));
      auto second = convolution_of(channels, 3);
      if (!narrows) second.residual = input;
      builder.convolve(name + "2", middle, second);
    }
  return network;
}

Network vgg_19() {
  Network network{"vgg-19", {56, 56, 64}, {}};
  Builder builder(network);
  int const layers[] = {2, 2, 4, 4};
  for (int stage = 0; stage < 4; ++stage) {
    if (stage > 0) builder.pool(fmt::format("pool{}", stage), Kind::max_pool, 2, 2, 0);
    for (int layer = 0; layer < layers[stage]; ++layer)
      builder.convolve(fmt::format("stage{}.conv{}", stage + 1, layer + 1), builder.last(),
                       convolution_of(64 << stage, 3));
  }
  return network;
}

Network resnet_50() {
  Network network{"resnet-50", {224, 224, 3}, {}};
  Builder builder(network);
  builder.convolve("conv1", 0, convolution_of(64, 7, 2), "bn1");
  builder.pool("maxpool", Kind::max_pool, 3, 2, 1);
  int const blocks[] = {3, 4, 6, 3};
  for (int stage = 0; stage < 4; ++stage)
    for (int block = 0; block < blocks[stage]; ++block)
      add_bottleneck(builder, fmt::format("layer{}.{}", stage + 1, block), 64 << stage,
                     stage > 0 && block == 0 ? 2 : 1, block == 0);
  builder.pool("avgpool", Kind::average_pool, 1, 1, 0);
  builder.convolve("fc", builder.last(), convolution_of(1000, 1, 1, false));
  return network;
}

std::vector<std::string> network_names() { return {"resnet-38", "vgg-19", "resnet-50"}; }

Expected<Network> network_named(std::string const& name) {
  for (auto const& make : {resnet_38, vgg_19, resnet_50})
    if (auto network = make(); network.name == name) return network;
  std::string names;
  for (auto const& one : network_names()) names += (names.empty() ? "" : ", ") + one;
  return refused(fmt::format("there is no network \"{}\"", name), "one of " + names);
}

Network with_edge(Network network, int edge) {
  network.image.height = network.image.width = edge;
  return network;
}

ImageSize output_size(ImageSize const& input, NetworkLayer const& layer) {
  if (layer.kind == Kind::average_pool) return {1, 1, input.channels};
  auto result = convolution::output_size(input, layer.layer);
  if (layer.kind == Kind::max_pool) result.channels = input.channels;
  return result;
}

std::vector<ImageSize> sizes_of(Network const& network) {
  std::vector<ImageSize> result = {network.image};
  for (auto const& layer : network.layers)
    result.push_back(output_size(result[static_cast<std::size_t>(layer.input)], layer));
  return result;
}

int padded(int channels) { return (channels + k_channel_group - 1) / k_channel_group * k_channel_group; }

long long filter_elements(ImageSize const& input, NetworkLayer const& layer) {
  auto const& l = layer.layer;
  return 1LL * l.channels * l.kernel * l.kernel * padded(input.channels);
}

double flops_of(Network const& network) {
  auto const sizes = sizes_of(network);
  double sum = 0;
  for (std::size_t n = 0; n < network.layers.size(); ++n) {
    auto const& layer = network.layers[n];
    if (layer.kind != Kind::convolution) continue;
    double const depth =
        1.0 * layer.layer.kernel * layer.layer.kernel * sizes[static_cast<std::size_t>(layer.input)].channels;
    sum += 2 * depth * static_cast<double>(sizes[n + 1].elements());
  }
  return sum;
}

Expected<void> check_network(Network const& network, int images) {
  if (images < 1 || images > convolution::k_most_images)
    return refused(fmt::format("a network for {} images", images),
                   fmt::format("ask for 1 to {}", convolution::k_most_images));
  for (int const edge : {network.image.height, network.image.width})
    if (edge < 1 || edge > convolution::k_most_edge)
      return refused(fmt::format("images of {} x {} pixels", network.image.height, network.image.width),
                     fmt::format("ask for 1 to {} rows and columns", convolution::k_most_edge));
  if (network.image.channels < 1 || network.image.channels > convolution::k_most_channels)
    return refused(fmt::format("images of {} channels", network.image.channels),
                   fmt::format("ask for 1 to {}", convolution::k_most_channels));
  if (network.layers.empty() || network.layers.size() > k_most_layers)
    return refused(fmt::format("a network of {} layers", network.layers.size()),
                   fmt::format("ask for 1 to {}", k_most_layers));
  std::vector<ImageSize> sizes = {network.image};
  for (std::size_t n = 0; n < network.layers.size(); ++n) {
    auto const& layer = network.layers[n];
    auto const where = fmt::format("layer {} of {}, {}", n, network.name, layer.name);
    auto const exists = [&](int activation) { return activation >= 0 && activation <= static_cast<int>(n); };
    if (!exists(layer.input))
      return refused(fmt::format("an input of activation {}", layer.input),
                     "0 is the network's input, n what layer n - 1 writes", where);
    auto const& input = sizes[static_cast<std::size_t>(layer.input)];
    if (layer.kind != Kind::average_pool)
      if (auto ok = check_convolution(layer.layer, input, where); !ok) return ok;
    int const channels = layer.kind == Kind::convolution ? layer.layer.channels : input.channels;
    if (channels < 1 || channels > convolution::k_most_channels || channels % k_channel_group != 0)
      return refused(fmt::format("a layer to {} channels", channels),
                     fmt::format("ask for multiples of {} up to {}: pad with zeros", k_channel_group,
                                 convolution::k_most_channels),
                     where);
    auto const output = output_size(input, layer);
    if (images * output.elements() >= k_most_elements)
      return refused(fmt::format("{} elements of a layer's result", images * output.elements()),
                     "ask for fewer than 2^31: fewer images, or smaller ones", where);
    if (int const residual = layer.layer.residual; residual != -1) {
      if (layer.kind != Kind::convolution || !exists(residual))
        return refused(fmt::format("a residual of activation {}", residual),
                       "add one that a layer before writes, to a convolution", where);
      if (auto const& added = sizes[static_cast<std::size_t>(residual)]; !(added == output))
        return refused(fmt::format("a residual of {}x{}x{} to results of {}x{}x{}", added.height, added.width,
                                   added.channels, output.height, output.width, output.channels),
                       "add an activation of the same size", where);
    }
    sizes.push_back(output);
  }
  return {};
}

std::string to_string(NetworkLayer const& layer) {
  auto const& l = layer.layer;
  if (layer.kind == Kind::average_pool) return "average of all pixels";
  auto text = layer.kind == Kind::max_pool
                  ? fmt::format("max pooling of {0}x{0} pixels", l.kernel)
                  : fmt::format("{0}x{0} convolution to {1} channels", l.kernel, l.channels);
  if (l.stride != 1) text += fmt::format(", stride {}", l.stride);
  return text;
}

}  // namespace tessera::networks
