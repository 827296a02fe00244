// SPDX-License-Identifier: Apache-2.0
// What chains of convolutions refuse before they ask for a GPU (E0567).
#include <gmock/gmock.h>

#include "convolution/chains.hpp"

namespace tessera::convolution {
namespace {

void expect_refused(LayerChain const& chain, std::string const& text, ConvOptions const& options = {}) {
  auto const cut = cut_chain(chain, {}, options);
  ASSERT_FALSE(cut) << text;
  EXPECT_EQ(to_text(cut.error()), text);
}

TEST(ConvolutionRefusal, Inputs) {
  auto chain = same_size(0, 14, 256, 2);
  expect_refused(chain, "error E0567: convolutions of 0 images\n   hint: ask for 1 to 1024");
  chain = same_size(1, 14, 256, 2), chain.width = 1025;
  expect_refused(chain,
                 "error E0567: convolutions of images of 14 x 1025 pixels\n"
                 "   hint: ask for 1 to 1024 rows and columns");
  for (int const channels : {3, 96, 0, 8192})
    expect_refused({1, 14, 14, channels, {Layer{}}},
                   "error E0567: convolutions of " + std::to_string(channels) +
                       " channels\n   hint: ask for multiples of 64 up to 4096: pad with zeros");
  expect_refused({1, 14, 14, 64, {}}, "error E0567: a chain of 0 convolutions\n   hint: ask for 1 to 64");
  expect_refused(same_size(1, 14, 64, 65),
                 "error E0567: a chain of 65 convolutions\n   hint: ask for 1 to 64");
  expect_refused(same_size(1024, 1024, 64, 1),
                 "error E0567: 68719476736 elements of a chain's input\n   hint: ask for fewer than 2^31");
}

TEST(ConvolutionRefusal, LayersAreNamed) {
  auto const refused = [](Layer const& second, std::string const& message, std::string const& hint) {
    expect_refused({1, 14, 14, 64, {Layer{}, second}},
                   "error E0567: " + message + "\n   layer 1 of the chain\n   hint: " + hint);
  };
  refused(layer(64, 7, 1, 3), "a filter of 7x7 pixels", "ask for 1x1, 3x3 or 5x5");
  refused(layer(64, 2, 1, 0), "a filter of 2x2 pixels", "ask for 1x1, 3x3 or 5x5");
  refused(layer(64, 3, 3, 1), "a convolution of stride 3", "ask for 1 or 2");
  refused(layer(64, 3, 1, 2), "2 zeros around an image for a filter of 3x3", "ask for 0 to 1");
  refused(layer(100, 3, 1, 1), "a convolution to 100 channels",
          "ask for multiples of 64 up to 4096: pad with zeros");
  auto residual = layer(64, 3, 1, 1);
  residual.residual = 1;
  refused(residual, "a residual of activation 1",
          "add one that is older than the layer's input: 0 is the chain's input, n what layer n - 1 writes");
  residual = layer(128, 3, 1, 1), residual.residual = 0;
  refused(residual, "a residual of 14x14x64 to results of 14x14x128", "add an activation of the same size");
  expect_refused({1, 2, 14, 64, {layer(64, 5, 1, 1)}},
                 "error E0567: a filter of 5x5 on 2 x 14 pixels with 1 zeros around them\n"
                 "   layer 0 of the chain\n   hint: ask for more padding, or a smaller filter");
}

TEST(ConvolutionRefusal, SplitsAndCuts) {
  ConvOptions options;
  options.splits = 3;
  expect_refused(same_size(1, 14, 256, 2),
                 "error E0567: tiles of convolutions shared by 3 blocks\n"
                 "   hint: ask for 1, 2, 4 or 8, or 0: what is cheapest",
                 options);
  options.splits = 8;
  expect_refused(same_size(1, 14, 256, 2),
                 "error E0567: 256 channels of a convolution shared by 8 blocks\n   layer 0 of the chain\n"
                 "   hint: ask for fewer splits: each takes chunks of 64",
                 options);
  options = {};
  options.cuts = {Cut{}};
  expect_refused(same_size(1, 14, 256, 2),
                 "error E0567: 1 cuts of 2 convolutions\n"
                 "   hint: give one for each layer, with the same 1, 2, 4 or 8 splits",
                 options);
  auto const refused = [&](auto const& change, std::string const& why) {
    auto const chain = same_size(2, 14, 256, 1);
    options.cuts = {cut_chain(chain, {})->stages[0].cut};
    change(options.cuts[0]);
    auto const cut = cut_chain(chain, {}, options);
    ASSERT_FALSE(cut) << why;
    EXPECT_THAT(to_text(cut.error()), testing::HasSubstr(why));
    EXPECT_THAT(to_text(cut.error()), testing::HasSubstr("a convolution cut into "));
  };
  refused([](Cut& cut) { cut.depth_warps = 3; }, "no kernel divides its warps so");
  refused([](Cut& cut) { cut.box_height = 0; }, "its pixels are not as many as its columns, or fewer");
  refused([](Cut& cut) { cut.box_width = cut.columns() + 1; }, "its pixels are not as many as its columns");
  refused([](Cut& cut) { cut.box_width = 1, cut.box_height = 1, cut.box_images = 2; },
          "a box of several images has whole ones");
  refused([](Cut& cut) { cut.box_width = 15, cut.box_height = 1, cut.box_images = 1; },
          "it is larger than the result");
  refused([](Cut& cut) { cut.taps_per_slot = 2; }, "its slots do not divide the filter's pixels");
}

}  // namespace
}  // namespace tessera::convolution
