// SPDX-License-Identifier: Apache-2.0
// The reference against numbers worked out by hand.
#include "kernels/convolution/reference.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "convolution/chains.hpp"

namespace tessera::convolution {
namespace {

/// Channel 0 of an image of 3 x 3 pixels is 1 to 9, all other channels are 0.
std::vector<float> one_to_nine() {
  std::vector<float> result(9 * 64);
  for (std::size_t i = 0; i < 9; ++i) result[64 * i] = static_cast<float>(i + 1);
  return result;
}
/// Filters of which only channel 0 of output 0 has numbers.
LayerNumbers filter(std::vector<float> const& taps, float bias = 0) {
  LayerNumbers result{std::vector<float>(64 * taps.size() * 64), std::vector<float>(64)};
  for (std::size_t t = 0; t < taps.size(); ++t) result.filter[64 * t] = taps[t];
  result.bias[0] = bias;
  return result;
}
std::vector<float> channel_0(std::vector<float> const& of) {
  std::vector<float> result;
  for (std::size_t i = 0; i < of.size(); i += 64) result.push_back(of[i]);
  return result;
}

TEST(ConvolutionReference, ZerosAroundAnImage) {
  auto const chain = same_size(1, 3, 64, 1);
  auto const sums = reference_layer(chain, 0, one_to_nine(), filter(std::vector<float>(9, 1.0f)), nullptr);
  EXPECT_EQ(channel_0(sums), (std::vector<float>{12, 21, 16, 27, 45, 33, 24, 39, 28}));
  // The tap in the upper left corner reads the pixel above and to the left; others do not mirror.
  auto const moved = reference_layer(chain, 0, one_to_nine(), filter({1, 0, 0, 0, 0, 0, 0, 0, 0}), nullptr);
  EXPECT_EQ(channel_0(moved), (std::vector<float>{0, 0, 0, 0, 1, 2, 0, 4, 5}));
}

TEST(ConvolutionReference, StrideBiasAndRelu) {
  LayerChain chain{1, 3, 3, 64, {layer(64, 3, 2, 1)}};
  auto const ones = std::vector<float>(9, 1.0f);
  EXPECT_EQ(channel_0(reference_layer(chain, 0, one_to_nine(), filter(ones, -20), nullptr)),
            (std::vector<float>{0, 0, 4, 8}));
  chain.layers[0].relu = false;
  EXPECT_EQ(channel_0(reference_layer(chain, 0, one_to_nine(), filter(ones, -20), nullptr)),
            (std::vector<float>{-8, -4, 4, 8}));
  chain.layers[0] = layer(64, 1, 2, 0);
  EXPECT_EQ(channel_0(reference_layer(chain, 0, one_to_nine(), filter({2}), nullptr)),
            (std::vector<float>{2, 6, 14, 18}));
}

TEST(ConvolutionReference, ResidualsAreAddedBeforeRelu) {
  LayerChain chain{1, 3, 3, 64, {layer(64, 1, 1, 0), layer(64, 1, 1, 0)}};
  chain.layers[1].residual = 0;
  auto const all = reference_chain(chain, one_to_nine(), {filter({1}, -5), filter({-2}, 0)});
  EXPECT_EQ(channel_0(all[1]), (std::vector<float>{0, 0, 0, 0, 0, 1, 2, 3, 4}));
  EXPECT_EQ(channel_0(all[2]), (std::vector<float>{1, 2, 3, 4, 5, 4, 3, 2, 1}));
}

TEST(ConvolutionReference, EachActivationIsRounded) {
  EXPECT_EQ(rounded(2049, ElementType::fp16), 2048);  // ties to even
  EXPECT_EQ(rounded(2051, ElementType::fp16), 2052);
  EXPECT_EQ(rounded(65519, ElementType::fp16), 65504);
  EXPECT_TRUE(std::isinf(rounded(65520, ElementType::fp16)));
  EXPECT_EQ(rounded(0x1p-25f, ElementType::fp16), 0);
  EXPECT_EQ(rounded(0x1.8p-25f, ElementType::fp16), 0x1p-24f);
  EXPECT_EQ(rounded(-257, ElementType::bf16), -256);
  EXPECT_EQ(rounded(259, ElementType::bf16), 260);
  auto const chain = same_size(1, 3, 64, 1);
  auto const sums =
      reference_layer(chain, 0, one_to_nine(), filter({0, 0, 0, 0, 1, 0, 0, 0, 0}, 2048), nullptr);
  EXPECT_EQ(channel_0(sums), (std::vector<float>{2048, 2050, 2052, 2052, 2052, 2054, 2056, 2056, 2056}));
}

TEST(ConvolutionReference, ImagesAreApart) {
  auto const chain = same_size(2, 3, 64, 1);
  auto input = one_to_nine();
  input.resize(2 * input.size());
  auto const sums = channel_0(reference_layer(chain, 0, input, filter(std::vector<float>(9, 1.0f)), nullptr));
  for (std::size_t i = 9; i < 18; ++i) EXPECT_EQ(sums[i], 0);
}

}  // namespace
}  // namespace tessera::convolution
