// SPDX-License-Identifier: Apache-2.0
// Layers as launches of their own: what a block holds, which cuts there are, what is refused.
#include "kernels/convolution/layer_cut.hpp"

#include <gmock/gmock.h>

#include <algorithm>

#include "convolution/chains.hpp"
#include "kernels/convolution/layer_time.hpp"

namespace tessera::convolution {
namespace {

constexpr int k_sms = 132;

TEST(ConvolutionLayerCut, WhatABlockHoldsFits) {
  for (auto const& chain : chains()) {
    auto const sizes = sizes_of(chain);
    SCOPED_TRACE(to_string(chain));
    for (std::size_t l = 0; l < chain.layers.size(); ++l) {
      auto const cuts = layer_cuts(sizes[l], chain.layers[l], chain.images, k_sms, 100000);
      ASSERT_FALSE(cuts.empty());
      double last = 0;
      for (auto const& cut : cuts) {
        SCOPED_TRACE(to_string(cut));
        auto const stage = stage_of(sizes[l], chain.layers[l], chain.images, cut, nullptr);
        auto const m = memory_of(stage);
        ASSERT_LE(m.bytes(), 227 * 1024);
        ASSERT_GE(m.slots, 1);
        ASSERT_LE(m.slots, stage.slots());
        ASSERT_GE(m.patches, 1);
        ASSERT_EQ(stage.slots() * cut.taps_per_slot, stage.taps() * stage.chunks);
        // Where the copy engine writes, patterns of 8 lines begin; barriers are 8 bytes; sums 16.
        ASSERT_EQ(m.slot(1) % 1024, 0);
        ASSERT_EQ(m.patch(0) % 1024, 0);
        ASSERT_EQ(m.sums() % 16, 0);
        ASSERT_EQ(m.full(0) % 8, 0);
        // All sums that a block of the cluster adds up have a place.
        if (cut.adds_up())
          ASSERT_EQ(m.sum_bytes, 4 * sources_of(cut) * (cut.columns() / cut.splits) * (cut.rows() + 4));
        else
          ASSERT_EQ(m.sum_bytes, 0);
        ASSERT_EQ(cut.columns() % cut.splits, 0);
        ASSERT_EQ(stage.tiles() % cut.splits, 0);
        double const price = layer_cycles(stage, chain.layers[l].residual != -1, k_sms);
        ASSERT_GE(price, last);
        last = price;
      }
    }
  }
}

/// Small batches leave room for the next launch's blocks, beside them or on other SMs: it could not load its
/// filters. Of the fastest measured cuts of results/h100/convolution_layers.json that of 7x7x512 leaves SMs.
TEST(ConvolutionLayerCut, SmallBatchesLeaveRoomForTheNextLaunch) {
  for (auto const& [edge, channels] : {std::pair{56, 64}, {28, 128}, {14, 256}, {7, 512}}) {
    auto const parts = cut_layers(same_size(1, edge, channels, 2), k_sms);
    ASSERT_OK(parts);
    for (auto const& part : *parts) {
      auto const& stage = part.cut.stages[0];
      EXPECT_LE(stage.tiles(), k_sms);
      EXPECT_TRUE(memory_of(stage).bytes() <= k_half_of_sm || 2 * stage.tiles() <= k_sms) << edge;
    }
  }
}

TEST(ConvolutionLayerCut, EachLayerIsAPart) {
  auto const chain = bottleneck(3);
  auto const parts = cut_layers(chain, k_sms);
  ASSERT_OK(parts);
  ASSERT_EQ(parts->size(), chain.layers.size());
  auto const sizes = sizes_of(chain);
  for (std::size_t l = 0; l < parts->size(); ++l) {
    auto const& part = (*parts)[l];
    EXPECT_EQ(part.first, l);
    ASSERT_EQ(part.cut.stages.size(), 1u);
    EXPECT_EQ(part.cut.stages[0].producer.rows, 0);  // it waits for the launch before, not for tiles
    EXPECT_EQ(sizes_of(part.chain).back(), sizes[l + 1]);
  }
  EXPECT_EQ((*parts)[2].chain.layers[0].residual, k_given_residual);
}

TEST(ConvolutionLayerCut, CutsThatAreNoneAreRefused) {
  auto const chain = same_size(1, 14, 256, 2);
  ConvOptions options;
  options.by_layer = true;
  auto const good = layer_cuts(sizes_of(chain)[0], chain.layers[0], 1, k_sms, 1);
  options.cuts = good;
  auto refused = cut_layers(chain, k_sms, options);
  ASSERT_FALSE(refused);
  EXPECT_THAT(to_text(refused.error()), testing::HasSubstr("1 cuts of 2 convolutions"));
  options.cuts = {good[0], good[0]};
  ASSERT_OK(cut_layers(chain, k_sms, options));
  options.cuts[1].column_tiles = 3;
  refused = cut_layers(chain, k_sms, options);
  ASSERT_FALSE(refused);
  EXPECT_THAT(to_text(refused.error()), testing::HasSubstr("layer 1 of the chain"));
  auto wrong = chain;
  wrong.layers[0].kernel = 7;
  EXPECT_FALSE(cut_layers(wrong, k_sms));
}

}  // namespace
}  // namespace tessera::convolution
