// SPDX-License-Identifier: Apache-2.0
// What needs no GPU: who multiplies which rows, what is offered and what is refused.
#include <gtest/gtest.h>

#include "kernels/skinny_mlp_sm90/cut.hpp"
#include "kernels/skinny_mlp_sm90/skinny.hpp"

namespace tessera::skinny_sm90 {
namespace {

using mlp::Form;

TEST(SkinnyCuts, EveryRowBelongsToOneUnit) {
  for (int const features : {1, 8, 131, 132, 2752, 6144, 28672})
    for (int const blocks : {1, 32, 33, 132})
      for (int const waves : {1, 2, 3})
        for (int const tiles : {1, 2}) {
          Cut const cut = make_cut(features, 2, 64, waves, tiles, 4, blocks);
          int next = 0;
          for (int wave = 0; wave < waves; ++wave)
            for (int block = 0; block < blocks; ++block)
              for (int tile = 0; tile < tiles; ++tile) {
                Range const unit = cut.unit(wave, blocks, block, tile);
                ASSERT_EQ(unit.begin, next);
                ASSERT_LE(unit.size() * 2, cut.box_rows);
                next = unit.end;
              }
          ASSERT_EQ(next, features);
          ASSERT_EQ(cut.slot_rows % 8, 0);
          ASSERT_GE(cut.slot_rows, cut.box_rows);
        }
}

TEST(SkinnyCuts, PairsHaveWholeGranulesAndEqualParts) {
  for (int const features : {8, 712, 2752, 6144, 12288})
    for (int const groups : {1, 4, 66})
      for (int const granule : {1, 2, 4})
        for (int const depth : {8, 72, 2752, 12288}) {
          Cut const cut = make_cut(features, 2, depth, 2, 1, 2, groups, 2, granule, 4);
          int next = 0;
          for (int wave = 0; wave < 2; ++wave)
            for (int group = 0; group < groups; ++group) {
              Range const unit = cut.unit(wave, groups, group, 0);
              ASSERT_EQ(unit.begin, next);
              ASSERT_EQ(unit.size() % granule, 0);
              ASSERT_LE(unit.size() * 2, cut.box_rows);
              next = unit.end;
            }
          ASSERT_EQ(next, features);
          ASSERT_EQ(cut.part_blocks % 4, 0);
          ASSERT_GE(2 * cut.part_blocks, cut.depth_blocks());
          ASSERT_LT(2 * (cut.part_blocks - 4), cut.depth_blocks());
        }
  for (int rows = 1; rows <= most_pair_rows; ++rows) {
    ASSERT_GE(pair_columns(rows), rows);
    ASSERT_EQ(pair_columns(rows) % 16, 0);
  }
}

TEST(SkinnyCuts, StagesCoverTheDepth) {
  for (int const depth : {8, 64, 72, 2752, 12288})
    for (int const stage_depth : {1, 2, 4}) {
      Cut const cut = make_cut(8, 1, depth, 1, 1, stage_depth, 1);
      EXPECT_GE(cut.stages * stage_depth * depth_block, depth);
      EXPECT_LT((cut.stages - 1) * stage_depth * depth_block, depth);
    }
}

TEST(SkinnyConfigs, EveryTokenCountHasSome) {
  for (Form const form : {Form::gelu, Form::swiglu})
    for (auto const& [model, hidden] :
         {std::pair{12288, 6144}, {8192, 2752}, {8, 8}, {1032, 712}, {4096, 14336}})
      for (int tokens = 1; tokens <= most_tokens; ++tokens) {
        mlp::Shape const shape{tokens, model, hidden, form};
        auto const list = configs(shape);
        EXPECT_FALSE(list.empty()) << tokens << " " << model << " " << hidden;
        for (Config const& config : list) {
          EXPECT_STREQ(refusal(shape, config), nullptr);
          auto const again = parse_config(to_string(config));
          ASSERT_TRUE(again.has_value()) << to_string(config);
          EXPECT_EQ(to_string(*again), to_string(config));
        }
      }
}

TEST(SkinnyConfigs, OnlyItsOwnTextIsRead) {
  for (char const* text : {"", "n8", "skinny", "n8 c1 w1 t1: 1+1 tiles"}) EXPECT_FALSE(parse_config(text));
  EXPECT_FALSE(parse_config(to_string(Config{}) + " "));
}

TEST(SkinnyConfigs, RefusesWithAReason) {
  mlp::Shape const good{16, 8192, 2752, Form::swiglu};
  Config const config = configs(good).front();
  auto shape = good;
  shape.tokens = 129;
  EXPECT_STREQ(refusal(shape, config), "tokens must be 1...128");
  EXPECT_TRUE(configs(shape).empty());
  shape = good;
  shape.model = 8190;
  EXPECT_STREQ(refusal(shape, config), "model must be a positive multiple of 8");
  shape = good;
  shape.hidden = 0;
  EXPECT_STREQ(refusal(shape, config), "hidden must be a positive multiple of 8");
  shape = good;
  shape.tokens = 17;
  EXPECT_STREQ(refusal(shape, config), "token_tile must hold all tokens");
  auto other = config;
  other.split = 3;
  EXPECT_STREQ(refusal(good, other), "no kernel is compiled for this token_tile, split and tiles");
  other = config;
  other.first_depth = 5;
  EXPECT_STREQ(refusal(good, other),
               "first_depth and second_depth must be 1...16 and multiples of activation_depth");
  other = config;
  other.second_split = 2;
  EXPECT_STREQ(refusal(good, other), "second_split must be 0, 1 or split");
  mlp::Shape const many{64, 8192, 2752, Form::swiglu};
  other = configs(many).front();
  other.second_depth = 3;
  EXPECT_STREQ(refusal(many, other),
               "where blocks split the depth, first_depth and second_depth must be 1, 2 or 4");
  other = config;
  other.slots = 1;
  EXPECT_STREQ(refusal(good, other),
               "the rings do not fit shared memory: fewer stages or slots, or less depth");
  other = config;
  other.blocks = 8;
  other.first_waves = 1;
  EXPECT_STREQ(refusal(good, other),
               "a block has more rows than it multiplies at once: more waves or tiles are needed");
  EXPECT_EQ(explain(StallRecord{}, Plan{}), "");
}

}  // namespace
}  // namespace tessera::skinny_sm90
