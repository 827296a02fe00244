// SPDX-License-Identifier: Apache-2.0
// Weights from files: torchvision's names, batch norms that are folded in, padding, refusals.
#include "kernels/networks/weights.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>

#include "kernels/convolution/reference.hpp"
#include "kernels/networks/reference.hpp"
#include "support/safetensors_writer.hpp"

namespace tessera::networks {
namespace {

namespace fs = std::filesystem;
using support::WrittenTensor;

TEST(NetworkWeights, BitsOfNumbers) {
  auto const half = [](double value) { return bits_of(value, ElementType::fp16); };
  EXPECT_EQ(half(1), 0x3c00);
  EXPECT_EQ(half(-2), 0xc000);
  EXPECT_EQ(half(65504), 0x7bff);
  EXPECT_EQ(half(1e6), 0x7c00);
  EXPECT_EQ(half(0x1p-24), 1);
  EXPECT_EQ(half(-0x1p-14), 0x8400);
  EXPECT_EQ(half(0), 0);
  EXPECT_EQ(bits_of(1, ElementType::bf16), 0x3f80);
  EXPECT_TRUE(std::isnan(value_of(half(NAN), ElementType::fp16)));
  for (int bits = 0; bits < 0x7c00; ++bits)
    for (int const sign : {0, 0x8000}) {
      auto const one = static_cast<std::uint16_t>(bits | sign);
      ASSERT_EQ(half(static_cast<double>(value_of(one, ElementType::fp16))), one);
    }
}

TEST(NetworkWeights, ABatchNormIsFolded) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  int const channels = 5, each = 12;
  std::vector<float> filter(channels * each), input(each);
  BatchNorm norm;
  for (auto& one : filter) one = normal(random);
  for (auto& one : input) one = normal(random);
  for (int c = 0; c < channels; ++c) {
    norm.scale.push_back(normal(random)), norm.shift.push_back(normal(random));
    norm.mean.push_back(normal(random)), norm.variance.push_back(std::abs(normal(random)));
  }
  norm.variance[2] = 0;  // epsilon alone
  for (bool const has_bias : {false, true}) {
    std::vector<float> bias;
    if (has_bias) bias = {1, -2, 3, -4, 5};
    auto const folded = fold_batch_norm(filter, bias, norm);
    for (std::size_t c = 0; c < channels; ++c) {
      double sum = has_bias ? static_cast<double>(bias[c]) : 0, together = folded.bias[c];
      for (std::size_t i = 0; i < each; ++i) {
        sum += static_cast<double>(filter[c * each + i]) * static_cast<double>(input[i]);
        together += folded.filter[c * each + i] * static_cast<double>(input[i]);
      }
      double const wanted = (sum - static_cast<double>(norm.mean[c])) /
                                std::sqrt(static_cast<double>(norm.variance[c]) + 1e-5) *
                                static_cast<double>(norm.scale[c]) +
                            static_cast<double>(norm.shift[c]);
      EXPECT_NEAR(together, wanted, 1e-12 * (1 + std::abs(wanted) + 1e3)) << c;
    }
  }
}

TEST(NetworkWeights, ChannelsLast) {
  // [2 out][3 in][2x2]: number 100 out + 10 in + tap.
  std::vector<double> filter;
  for (int out = 0; out < 2; ++out)
    for (int in = 0; in < 3; ++in)
      for (int tap = 0; tap < 4; ++tap) filter.push_back(100 * out + 10 * in + tap);
  auto const found = channels_last(filter, 2, 3, 2);
  ASSERT_EQ(found.size(), 2u * 4 * 8);
  for (int out = 0; out < 2; ++out)
    for (int tap = 0; tap < 4; ++tap)
      for (int in = 0; in < 8; ++in)
        EXPECT_EQ(found[static_cast<std::size_t>((out * 4 + tap) * 8 + in)],
                  in < 3 ? 100 * out + 10 * in + tap : 0);
}

/// A stem of 3 channels with a batch norm, pooling, a classifier.
Network small() {
  convolution::Layer stem, product;
  stem.channels = 8;
  product.channels = 16, product.kernel = 1, product.padding = 0, product.relu = false;
  return {"small",
          {4, 4, 3},
          {{"conv1", Kind::convolution, 0, stem, "bn1"},
           {"avgpool", Kind::average_pool, 1, {}, {}},
           {"fc", Kind::convolution, 2, product, {}}}};
}

class Files : public testing::Test {
 protected:
  Files() {
    auto pattern = (fs::temp_directory_path() / "tessera-networks-XXXXXX").string();
    folder = mkdtemp(pattern.data());
    for (auto const& one : tensors_of(small()).tensors) {
      std::size_t count = 1;
      for (auto const extent : one.shape) count *= static_cast<std::size_t>(extent);
      std::vector<float> values(count);
      for (auto& value : values) value = next();
      put(one.name, one.shape, values);
    }
    put("bn1.num_batches_tracked", {1}, {1});
  }
  ~Files() override { fs::remove_all(folder); }

  float next() { return static_cast<float>(random() % 1000) / 1000; }
  void put(std::string const& name, std::vector<std::int64_t> const& shape,
           std::vector<float> const& values) {
    std::string bytes(4 * values.size(), '\0');
    std::memcpy(bytes.data(), values.data(), bytes.size());
    numbers[name] = values;
    stored[name] = {name, "F32", shape, bytes};
  }
  Expected<NetworkWeights> read(Network const& network) {
    std::vector<WrittenTensor> all;
    for (auto const& [name, one] : stored) all.push_back(one);
    support::write_bytes(folder + "/model.safetensors", support::safetensors_of(all));
    auto const files = WeightFiles::open(folder);
    if (!files) return tl::make_unexpected(files.error());
    return read_weights(network, *files);
  }
  std::string refusal(Network const& network) {
    auto const found = read(network);
    if (found) return "taken";
    auto text = to_text(found.error());
    for (auto at = text.find(folder); at != std::string::npos; at = text.find(folder))
      text.replace(at, folder.size(), "F");
    return text;
  }

  std::mt19937 random{1};
  std::string folder;
  std::map<std::string, WrittenTensor> stored;
  std::map<std::string, std::vector<float>> numbers;
};

TEST_F(Files, OfTorchvision) {
  std::vector<std::string> names;
  for (auto const& one : tensors_of(resnet_50()).tensors) names.push_back(one.name);
  EXPECT_EQ(names.size(), 53u * 5 + 2);
  for (auto const* name : {"conv1.weight", "bn1.running_var", "layer1.0.downsample.0.weight",
                           "layer1.0.downsample.1.bias", "layer4.2.conv3.weight", "fc.weight", "fc.bias"})
    EXPECT_THAT(names, testing::Contains(name));
}
TEST_F(Files, AreFoldedAndPadded) {
  auto const weights = read(small());
  ASSERT_TRUE(weights) << to_text(weights.error());
  ASSERT_EQ(weights->layers.size(), 3u);
  auto const& stem = weights->layers[0];
  ASSERT_EQ(stem.filter.size(), 8u * 9 * 8);
  for (std::size_t out = 0; out < 8; ++out) {
    double const factor = static_cast<double>(numbers["bn1.weight"][out]) /
                          std::sqrt(static_cast<double>(numbers["bn1.running_var"][out]) + 1e-5);
    for (std::size_t tap = 0; tap < 9; ++tap)
      for (std::size_t in = 0; in < 8; ++in) {
        double const wanted =
            in < 3 ? factor * static_cast<double>(numbers["conv1.weight"][(out * 3 + in) * 9 + tap]) : 0;
        EXPECT_EQ(stem.filter[(out * 9 + tap) * 8 + in], bits_of(wanted, ElementType::fp16));
      }
    EXPECT_EQ(stem.bias[out], bits_of(static_cast<double>(numbers["bn1.bias"][out]) -
                                          factor * static_cast<double>(numbers["bn1.running_mean"][out]),
                                      ElementType::fp16));
  }
  EXPECT_TRUE(weights->layers[1].filter.empty());
  EXPECT_EQ(weights->layers[2].filter.size(), 16u * 8);
  EXPECT_EQ(weights->layers[2].bias[3],
            bits_of(static_cast<double>(numbers["fc.bias"][3]), ElementType::fp16));
}
TEST_F(Files, Refusals) {
  auto variance = numbers["bn1.running_var"];
  variance[1] = -1;
  put("bn1.running_var", {8}, variance);
  EXPECT_EQ(
      refusal(small()),
      "F: error E0573: bn1.running_var has a variance of -1\n   hint: variances are 0 or more: see whether "
      "the file is whole");
  variance[1] = 0, put("bn1.running_var", {8}, variance);
  auto filter = numbers["conv1.weight"];
  filter[27] = 300, put("conv1.weight", {8, 3, 3, 3}, filter);
  auto scale = numbers["bn1.weight"];
  scale[1] = 1, put("bn1.weight", {8}, scale);
  EXPECT_THAT(refusal(small()), testing::StartsWith("F: error E0573: the filter of conv1 has 94868.3"));
  EXPECT_THAT(refusal(small()), testing::EndsWith("which fp16 does not hold\n   hint: ask for bf16"));
  auto wide = small();
  wide.type = ElementType::bf16;
  EXPECT_EQ(refusal(wide), "taken");
  stored.erase("fc.bias");
  EXPECT_EQ(refusal(wide),
            "F: error E0572: 1 of 7 tensors are missing: fc.bias\n   hint: see that the weights are those of "
            "small");
}

TEST(NetworkReference, PoolingByHand) {
  convolution::Layer layer;
  layer.kernel = 2, layer.stride = 2, layer.padding = 1, layer.relu = layer.bias = false;
  Network network{
      "pools", {3, 3, 8}, {{"max", Kind::max_pool, 0, layer, {}}, {"all", Kind::average_pool, 0, {}, {}}}};
  ASSERT_TRUE(check_network(network, 1));
  std::vector<float> input(3 * 3 * 8);
  for (std::size_t i = 0; i < input.size(); ++i) input[i] = i % 8 == 0 ? -static_cast<float>(i / 8) - 1 : 0;
  // -1 -2 -3 / -4 -5 -6 / -7 -8 -9 with nothing around it, by pairs: the corner alone, then 2 and 3.
  auto const largest = reference_layer(network, 0, 1, input, {}, nullptr);
  ASSERT_EQ(largest.size(), 2u * 2 * 8);
  EXPECT_EQ(largest[0], -1);
  EXPECT_EQ(largest[8], -2);
  EXPECT_EQ(largest[16], -4);
  EXPECT_EQ(largest[24], -5);
  EXPECT_EQ(largest[1], 0);
  auto const average = reference_layer(network, 1, 1, input, {}, nullptr);
  ASSERT_EQ(average.size(), 8u);
  EXPECT_EQ(average[0], -5);
}
/// Channels that are shared out among threads, with a residual, against the chain's own reference.
TEST(NetworkReference, AConvolution) {
  auto network = with_edge(resnet_38(), 5);
  auto const weights = random_weights(network, 7);
  std::vector<float> input(2 * 5 * 5 * 64), residual(input.size());
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (auto* const all : {&input, &residual})
    for (auto& one : *all)
      one = value_of(bits_of(static_cast<double>(normal(random)), network.type), network.type);
  auto const found = reference_layer(network, 1, 2, input, weights.layers[1], &residual);
  convolution::LayerChain chain = convolution::same_size(2, 5, 64, 1);
  convolution::LayerNumbers numbers;
  for (auto const bits : weights.layers[1].filter) numbers.filter.push_back(value_of(bits, network.type));
  for (auto const bits : weights.layers[1].bias) numbers.bias.push_back(value_of(bits, network.type));
  EXPECT_EQ(found, convolution::reference_layer(chain, 0, input, numbers, &residual));
}

}  // namespace
}  // namespace tessera::networks
