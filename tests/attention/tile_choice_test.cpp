// SPDX-License-Identifier: Apache-2.0
// Which tiles a launch is cut into.
#include "kernels/attention_sm90/tile_choice.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstddef>

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

TEST(AttentionTileChoice, IsTheSameHoweverSequencesLie) {
  auto close = of(8, 4 * 512, true), apart = close;
  close.sequences = apart.sequences = 4;
  apart.query_step = apart.key_step = 8 * 512;
  apart.query_rows = apart.key_rows = 3 * apart.query_step + 512;
  for (int const queries : {64, 128, 192})
    EXPECT_EQ(estimate(apart, queries, 132), estimate(close, queries, 132));
}

TEST(AttentionTileChoice, EqualTilesGoInWholeRoundsHoweverMany) {
  // 12 heads of 4096 that see all keys: 384 tiles of 32 blocks are three rounds of 132 SMs, 264 of 192 two.
  EXPECT_NEAR(estimate(of(12, 4096, false), 128, 132), 3 * (1 + 32 * 1.68), 1e-9);
  EXPECT_NEAR(estimate(of(12, 4096, false), 192, 132), 2 * (1 + 32 * 2.4), 1e-9);
  EXPECT_EQ(choose_tile_queries(of(12, 4096, false), 132), 192);
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

/// results/h100/attention.json: microseconds in tiles of 64, 128 and 192 queries.
struct Measured {
  int heads, length;
  bool causal;
  int window;
  double us[3];
};
constexpr Measured k_measured[] = {
    {12, 512, false, 0, {9.14, 11.36, 14.63}},      {12, 1000, false, 0, {26.59, 19.09, 24.67}},
    {12, 1024, false, 0, {24.54, 17.98, 23.92}},    {12, 2048, false, 0, {63.15, 60.25, 45.89}},
    {12, 4096, false, 0, {226.21, 165.34, 164.01}}, {12, 8192, false, 0, {961.31, 690.2, 676.32}},
    {8, 512, true, 0, {9.99, 11.69, 14.45}},        {8, 1000, true, 0, {14.6, 18.84, 23.78}},
    {8, 1024, true, 0, {14.88, 18.28, 23.19}},      {8, 2048, true, 0, {28, 31.64, 42.38}},
    {8, 4096, true, 0, {85.12, 61.18, 80.86}},      {8, 8192, true, 0, {299.58, 219.1, 239.84}},
    {32, 512, true, 0, {15.9, 13.58, 16.08}},       {32, 1024, true, 0, {35.73, 25.44, 30.18}},
    {32, 2048, true, 0, {100.27, 72, 76.76}},       {32, 4096, true, 0, {328.25, 236.44, 244.67}},
    {32, 8192, true, 0, {1338.26, 950.53, 948.66}}, {32, 8192, true, 1024, {409.93, 283.26, 279.42}},
};

TEST(AttentionTileChoice, IsWithinTwoPercentOfTheFastestThatWasMeasured) {
  for (auto const& one : k_measured) {
    auto p = of(one.heads, one.length, one.causal);
    p.window = one.window;
    auto const taken = static_cast<std::size_t>(choose_tile_queries(p, 132) / 64 - 1);
    EXPECT_LE(one.us[taken], 1.02 * *std::min_element(one.us, one.us + 3))
        << one.heads << " heads, " << one.length << " tokens";
  }
}

}  // namespace
}  // namespace tessera::attention_sm90
