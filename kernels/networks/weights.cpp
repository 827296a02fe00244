// SPDX-License-Identifier: Apache-2.0
#include "kernels/networks/weights.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <random>
#include <tessera/weights/bf16.hpp>

#include "kernels/convolution/reference.hpp"

namespace tessera::networks {
namespace {

constexpr double k_bias_deviation = 0.1;
constexpr double k_residual_share = 0.3;  ///< of what such a layer would write otherwise

tl::unexpected<Diagnostics> refused(WeightFiles const& files, std::string message, std::string way_out) {
  return refuse({"E0573", Severity::error, {files.path(), 0}, std::move(message), {}, std::move(way_out)});
}

/// A 1x1 convolution of one pixel is a product, whose tensor has no rows and columns.
bool is_product(ImageSize const& input, NetworkLayer const& layer) {
  return layer.layer.kernel == 1 && input.height == 1 && input.width == 1;
}

Expected<std::vector<float>> read_tensor(WeightFiles const& files, std::string const& name) {
  auto const& tensor = *files.find(name);  // check_tensors() has seen it
  auto const bytes = tensor.end - tensor.begin;
  std::vector<char> raw(bytes);
  if (auto ok = files.read(tensor, 0, bytes, raw.data()); !ok) return tl::make_unexpected(ok.error());
  bool const wide = tensor.type == "F32";
  std::vector<float> result(bytes / (wide ? 4 : 2));
  if (wide) {
    std::memcpy(result.data(), raw.data(), bytes);
    return result;
  }
  auto const type = tensor.type == "F16" ? ElementType::fp16 : ElementType::bf16;
  for (std::size_t i = 0; i < result.size(); ++i) {
    std::uint16_t bits;
    std::memcpy(&bits, raw.data() + 2 * i, sizeof bits);
    result[i] = value_of(bits, type);
  }
  return result;
}

Expected<BatchNorm> read_norm(WeightFiles const& files, std::string const& name) {
  BatchNorm norm;
  for (auto const& [end, to] : {std::pair{".weight", &norm.scale},
                                {".bias", &norm.shift},
                                {".running_mean", &norm.mean},
                                {".running_var", &norm.variance}}) {
    auto numbers = read_tensor(files, name + end);
    if (!numbers) return tl::make_unexpected(numbers.error());
    *to = std::move(*numbers);
  }
  for (float const variance : norm.variance)
    if (!(variance >= 0))
      return refused(files, fmt::format("{}.running_var has a variance of {}", name, variance),
                     "variances are 0 or more: see whether the file is whole");
  return norm;
}

/// Rounds, and refuses what the type does not hold.
Expected<std::vector<std::uint16_t>> rounded(WeightFiles const& files, std::string const& what,
                                             std::vector<double> const& numbers, ElementType type) {
  std::vector<std::uint16_t> result(numbers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    result[i] = bits_of(numbers[i], type);
    if (!std::isfinite(value_of(result[i], type)))
      return refused(
          files,
          fmt::format("{} has {}, which {} does not hold", what, numbers[i], convolution::name_of(type)),
          type == ElementType::fp16 ? "ask for bf16" : "see whether the file is whole");
  }
  return result;
}

std::vector<std::uint16_t> random_bits(std::size_t count, double deviation, ElementType type,
                                       std::mt19937& random) {
  std::normal_distribution<float> normal(0, static_cast<float>(deviation));
  std::vector<std::uint16_t> result(count);
  for (auto& one : result) one = bits_of(static_cast<double>(normal(random)), type);
  return result;
}

}  // namespace

FoldedLayer fold_batch_norm(std::vector<float> const& filter, std::vector<float> const& bias,
                            BatchNorm const& norm) {
  auto const channels = norm.scale.size(), each = filter.size() / channels;
  FoldedLayer result{std::vector<double>(filter.size()), std::vector<double>(channels)};
  for (std::size_t c = 0; c < channels; ++c) {
    double const factor =
        static_cast<double>(norm.scale[c]) / std::sqrt(static_cast<double>(norm.variance[c]) + norm.epsilon);
    for (std::size_t i = c * each; i < (c + 1) * each; ++i)
      result.filter[i] = static_cast<double>(filter[i]) * factor;
    double const before = bias.empty() ? 0 : static_cast<double>(bias[c]);
    result.bias[c] =
        (before - static_cast<double>(norm.mean[c])) * factor + static_cast<double>(norm.shift[c]);
  }
  return result;
}

std::vector<double> channels_last(std::vector<double> const& filter, int out, int in, int kernel) {
  auto const taps = static_cast<std::size_t>(kernel) * static_cast<std::size_t>(kernel);
  auto const depth = static_cast<std::size_t>(in), lines = static_cast<std::size_t>(padded(in));
  std::vector<double> result(static_cast<std::size_t>(out) * taps * lines);
  for (std::size_t o = 0; o < static_cast<std::size_t>(out); ++o)
    for (std::size_t i = 0; i < depth; ++i)
      for (std::size_t t = 0; t < taps; ++t)
        result[(o * taps + t) * lines + i] = filter[(o * depth + i) * taps + t];
  return result;
}

std::uint16_t bits_of(double value, ElementType type) {
  // By way of a float of the type's precision: that float is exact.
  float const near = convolution::rounded(static_cast<float>(value), type);
  std::uint32_t bits;
  std::memcpy(&bits, &near, sizeof bits);
  if (type == ElementType::bf16 || std::isnan(near)) {
    if (type == ElementType::bf16) return bf16_of(near);
    return 0x7e00;
  }
  auto const sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000u);
  float const size = std::abs(near);
  if (std::isinf(size)) return sign | 0x7c00u;
  if (size < 0x1p-14f) return static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(size * 0x1p24f));
  auto const exponent = static_cast<std::uint32_t>(bits >> 23 & 0xffu) - 112;
  return static_cast<std::uint16_t>(sign | exponent << 10 | (bits >> 13 & 0x3ffu));
}

float value_of(std::uint16_t bits, ElementType type) {
  if (type == ElementType::fp16) return float_of_fp16(bits);
  auto const wide = static_cast<std::uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

WantedTensors tensors_of(Network const& network) {
  WantedTensors result;
  auto const sizes = sizes_of(network);
  for (auto const& layer : network.layers) {
    if (layer.kind != Kind::convolution) continue;
    auto const& input = sizes[static_cast<std::size_t>(layer.input)];
    auto const& l = layer.layer;
    std::vector<std::int64_t> shape{l.channels, input.channels};
    if (!is_product(input, layer)) shape.insert(shape.end(), {l.kernel, l.kernel});
    result.tensors.push_back({layer.name + ".weight", std::move(shape)});
    if (layer.norm.empty()) {
      if (l.bias) result.tensors.push_back({layer.name + ".bias", {l.channels}});
      continue;
    }
    for (auto const* end : {".weight", ".bias", ".running_mean", ".running_var"})
      result.tensors.push_back({layer.norm + end, {l.channels}});
  }
  result.ignored_ends = {".num_batches_tracked"};
  result.source = network.name;
  return result;
}

Expected<NetworkWeights> read_weights(Network const& network, WeightFiles const& files) {
  if (auto ok = check_tensors(files, tensors_of(network)); !ok) return tl::make_unexpected(ok.error());
  auto const sizes = sizes_of(network);
  NetworkWeights result;
  for (auto const& layer : network.layers) {
    auto& to = result.layers.emplace_back();
    if (layer.kind != Kind::convolution) continue;
    auto const& l = layer.layer;
    auto const filter = read_tensor(files, layer.name + ".weight");
    if (!filter) return tl::make_unexpected(filter.error());
    FoldedLayer folded;
    if (!layer.norm.empty()) {
      auto const norm = read_norm(files, layer.norm);
      if (!norm) return tl::make_unexpected(norm.error());
      folded = fold_batch_norm(*filter, {}, *norm);
    } else {
      folded.filter.assign(filter->begin(), filter->end());
      if (l.bias) {
        auto const bias = read_tensor(files, layer.name + ".bias");
        if (!bias) return tl::make_unexpected(bias.error());
        folded.bias.assign(bias->begin(), bias->end());
      }
    }
    auto const in = sizes[static_cast<std::size_t>(layer.input)].channels;
    auto bits = rounded(files, "the filter of " + layer.name,
                        channels_last(folded.filter, l.channels, in, l.kernel), network.type);
    if (!bits) return tl::make_unexpected(bits.error());
    to.filter = std::move(*bits);
    bits = rounded(files, "the bias of " + layer.name, folded.bias, network.type);
    if (!bits) return tl::make_unexpected(bits.error());
    to.bias = std::move(*bits);
  }
  return result;
}

NetworkWeights random_weights(Network const& network, unsigned seed) {
  std::mt19937 random(seed);
  auto const sizes = sizes_of(network);
  NetworkWeights result;
  for (auto const& layer : network.layers) {
    auto& to = result.layers.emplace_back();
    if (layer.kind != Kind::convolution) continue;
    auto const& l = layer.layer;
    auto const in = static_cast<std::size_t>(sizes[static_cast<std::size_t>(layer.input)].channels);
    auto const lines = static_cast<std::size_t>(padded(static_cast<int>(in)));
    auto const taps = static_cast<std::size_t>(l.kernel) * static_cast<std::size_t>(l.kernel);
    // ReLU takes half of the square away.
    double deviation = std::sqrt((l.relu ? 2.0 : 1.0) / static_cast<double>(taps * in));
    if (l.residual >= 0) deviation *= k_residual_share;
    auto const dense =
        random_bits(static_cast<std::size_t>(l.channels) * taps * in, deviation, network.type, random);
    to.filter.assign(dense.size() / in * lines, 0);
    for (std::size_t line = 0; line < dense.size() / in; ++line)
      std::copy_n(dense.begin() + static_cast<std::ptrdiff_t>(line * in), in,
                  to.filter.begin() + static_cast<std::ptrdiff_t>(line * lines));
    if (l.bias)
      to.bias = random_bits(static_cast<std::size_t>(l.channels), k_bias_deviation, network.type, random);
  }
  return result;
}

}  // namespace tessera::networks
