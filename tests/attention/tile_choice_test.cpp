// SPDX-License-Identifier: Apache-2.0
// Which tiles a launch is cut into.
#include "kernels/attention_sm90/tile_choice.hpp"

#include <gmock/gmock.h>

namespace tessera::attention_sm90 {
namespace {

Problem of(int heads, int length, bool causal) {
  Problem p;
  p.heads = heads;
  p.head_size = 128;
  p.query_rows = length;
  p.causal = causal;
  return p;
}

TEST(AttentionTileChoice, IsThereForHeadsOf128) {
  using testing::ElementsAre;
  auto p = of(8, 512, true);
  EXPECT_THAT(tile_choices(p), ElementsAre(64, 128, 192));
  p.type = ElementType::fp16;
  EXPECT_THAT(tile_choices(p), ElementsAre(128));
  p.type = ElementType::bf16;
  p.drop = 0.1f;
  EXPECT_THAT(tile_choices(p), ElementsAre(128));
  p.drop = 0;
  p.head_size = 64;
  EXPECT_THAT(tile_choices(p), ElementsAre(128));
  EXPECT_EQ(choose_tile_queries(p, 132), 128);
}

TEST(AttentionTileChoice, FillsTheGpu) {
  // 12 heads of 2048: 192 tiles of 128 are two rounds, 132 of 192 are one.
  EXPECT_EQ(choose_tile_queries(of(12, 2048, false), 132), 192);
  EXPECT_EQ(choose_tile_queries(of(12, 1024, false), 132), 128);
  // Short ones leave SMs without work: smaller tiles are done sooner.
  EXPECT_EQ(choose_tile_queries(of(12, 512, false), 132), 64);
  EXPECT_EQ(choose_tile_queries(of(8, 512, true), 132), 64);
}

TEST(AttentionTileChoice, NoChoiceIsEstimatedToBeSlowerThanTheUsualTile) {
  for (int const heads : {1, 8, 12, 32, 64})
    for (int const length : {1, 100, 512, 1000, 2048, 8192})
      for (bool const causal : {false, true})
        for (int const sms : {1, 16, 132}) {
          auto const p = of(heads, length, causal);
          EXPECT_LE(estimate(p, choose_tile_queries(p, sms), sms), estimate(p, 128, sms));
          EXPECT_GT(estimate(p, 128, sms), 0);
        }
}

}  // namespace
}  // namespace tessera::attention_sm90
