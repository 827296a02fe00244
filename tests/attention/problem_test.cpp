// SPDX-License-Identifier: Apache-2.0
// What is refused, by name; and the tiles of a launch.
#include "kernels/attention_sm90/problem.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

namespace tessera::attention_sm90 {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Problem usual() {
  Problem p;
  p.heads = 8;
  p.head_size = 128;
  p.query_rows = 512;
  return p;
}

std::string said(Problem const& p) {
  auto const fine = check(p);
  return fine ? "fine" : to_text(fine.error());
}

template <class Change>
std::string said_after(Change const& change) {
  auto p = usual();
  change(p);
  return said(p);
}

TEST(AttentionProblem, IsRefusedByNumberAndWithAWayOut) {
  EXPECT_EQ(said(usual()), "fine");
  EXPECT_THAT(said_after([](auto& p) { p.heads = 0; }), AllOf(HasSubstr("E0590"), HasSubstr("0 heads")));
  EXPECT_THAT(said_after([](auto& p) { p.query_rows = 0; }), HasSubstr("0 rows of queries"));
  EXPECT_THAT(said_after([](auto& p) { p.sequences = 0; }), HasSubstr("0 sequences"));
  EXPECT_THAT(said_after([](auto& p) { p.key_heads = 3; }),
              AllOf(HasSubstr("8 heads cannot share 3 key heads"), HasSubstr("multiple of key_heads")));
  for (int const size : {0, 8, 72, 112, 192, 512, -64})
    EXPECT_THAT(said_after([&](auto& p) { p.head_size = size; }),
                AllOf(HasSubstr("heads of " + std::to_string(size)), HasSubstr("64, 80, 96, 128, 256")));
  EXPECT_THAT(said_after([](auto& p) { p.sequences = 3; }),
              AllOf(HasSubstr("512 rows of queries are not 3 equal sequences"), HasSubstr("query_offsets")));
  EXPECT_THAT(said_after([](auto& p) { p.sequences = 2, p.key_rows = 511; }),
              AllOf(HasSubstr("511 rows of keys are not 2 equal sequences"), HasSubstr("key_offsets")));
  EXPECT_THAT(said_after([](auto& p) { p.window = -1; }), HasSubstr("a window of -1 keys"));
  EXPECT_THAT(said_after([](auto& p) { p.scale = -1; }), HasSubstr("scaled by -1"));
  EXPECT_THAT(said_after([](auto& p) { p.scale = INFINITY; }), HasSubstr("scaled by inf"));
  EXPECT_THAT(said_after([](auto& p) { p.drop = 1; }), HasSubstr("a chance of 1"));
  EXPECT_THAT(said_after([](auto& p) { p.drop = NAN; }), HasSubstr("a chance of nan"));
  EXPECT_THAT(said_after([](auto& p) { p.drop = 0.1f, p.head_size = 256; }), HasSubstr("heads of 256"));
  EXPECT_THAT(said_after([](auto& p) { p.drop = 0.1f, p.type = ElementType::fp16; }), HasSubstr("fp16"));
  EXPECT_THAT(said_after([](auto& p) { p.turned_keys = true, p.head_size = 96; }),
              AllOf(HasSubstr("turned"), HasSubstr("heads of 96")));
  EXPECT_THAT(said_after([](auto& p) { p.k.row = 1028; }),
              AllOf(HasSubstr("a stride of 1028 elements in k"), HasSubstr("multiples of 8")));
  EXPECT_THAT(said_after([](auto& p) { p.out.head = -128; }), HasSubstr("in out"));
  EXPECT_THAT(said_after([](auto& p) { p.sequences = p.query_rows = 1 << 29; }), HasSubstr("tiles are more"));
}

TEST(AttentionProblem, StepsHoldTheirSequences) {
  auto const stepped = [](int rows, int step) {
    return said_after(
        [&](auto& p) { p.sequences = 3, p.query_rows = rows, p.query_step = step, p.key_rows = 9; });
  };
  EXPECT_EQ(stepped(2 * 800 + 100, 800), "fine");
  EXPECT_EQ(stepped(2 * 800 + 800, 800), "fine");
  for (int const rows : {2 * 800, 2 * 800 + 801})
    EXPECT_THAT(stepped(rows, 800), AllOf(HasSubstr(std::to_string(rows) +
                                                    " rows of queries are not 3 sequences at steps of 800"),
                                          HasSubstr("query_step")));
  EXPECT_THAT(stepped(300, -1), HasSubstr("at steps of -1"));
  EXPECT_THAT(stepped(300, 1 << 30), HasSubstr("at steps of 1073741824"));
  EXPECT_THAT(said_after([](auto& p) { p.sequences = 2, p.key_rows = 50, p.key_step = 20; }),
              AllOf(HasSubstr("50 rows of keys are not 2 sequences at steps of 20"), HasSubstr("key_step")));
  // Offsets say where sequences are, so that steps do not count.
  int const offsets[] = {0, 3, 7};
  EXPECT_EQ(said_after([&](auto& p) { p.sequences = 2, p.key_step = 1, p.key_offsets = offsets; }), "fine");
}

TEST(AttentionProblem, OddButRightOnesAreTaken) {
  EXPECT_EQ(said_after([](auto& p) { p.query_rows = 1; }), "fine");
  EXPECT_EQ(said_after([](auto& p) { p.key_heads = 1, p.key_rows = 7; }), "fine");
  EXPECT_EQ(said_after([](auto& p) { p.drop = 0.999f, p.head_size = 80; }), "fine");
  EXPECT_EQ(said_after([](auto& p) { p.turned_keys = true, p.head_size = 256; }), "fine");
}

TEST(AttentionProblem, ZerosAreReplaced) {
  auto p = usual();
  p.key_heads = 2;
  p.window = 5;
  p = completed(p);
  EXPECT_EQ(p.key_rows, 512);
  EXPECT_EQ(p.longest_queries, 512);
  EXPECT_TRUE(p.causal);
  EXPECT_FLOAT_EQ(p.scale, 0.08838835f);
  EXPECT_EQ(p.q.row, 1024);
  EXPECT_EQ(p.k.row, 256);
  EXPECT_EQ(p.q.group, 4 * 128);
  EXPECT_EQ(p.k.group, 128);
}

/// Every tile once, whatever the order.
template <class Place>
void expect_each_once(Tiles const& tiles, Place const& place) {
  std::set<std::tuple<int, int, int>> seen;
  for (int i = 0; i < tiles.count(); ++i) {
    TilePlace const at = place(i);
    ASSERT_TRUE(at.head >= 0 && at.head < tiles.heads) << i;
    ASSERT_TRUE(at.query_block >= 0 && at.query_block < tiles.query_blocks) << i;
    ASSERT_TRUE(at.sequence >= 0 && at.sequence < tiles.sequences) << i;
    ASSERT_TRUE(seen.emplace(at.head, at.query_block, at.sequence).second) << i;
  }
}

TEST(AttentionTileOrder, CoversEachTileOnce) {
  for (Tiles const tiles : {Tiles{1, 1, 1}, Tiles{8, 16, 1}, Tiles{3, 5, 7}, Tiles{12, 1, 4}}) {
    for (bool const last_first : {false, true})
      expect_each_once(tiles, [&](int i) { return tiles.at_position(i, last_first); });
    expect_each_once(tiles, [&](int i) { return tiles.at(i % tiles.heads, i / tiles.heads); });
  }
}

TEST(AttentionTileOrder, BehindACausalMaskTheLongestComeFirst) {
  Tiles const tiles{3, 5, 2};
  Sequence const s{0, 600, 0, 700};
  int last = 1 << 30;
  for (int i = 0; i < tiles.count(); ++i) {
    auto const first = tiles.at_position(i, true).query_block * 128;
    auto const seen = Sight{true, 0}.of(s, first, std::min(first + 128, s.queries) - 1);
    EXPECT_LE(seen.end - seen.begin, last) << i;
    last = seen.end - seen.begin;
  }
}

TEST(AttentionTileOrder, HasRoomForTheLongestSequence) {
  auto p = usual();
  p.query_rows = 1000;
  EXPECT_EQ(tiles_of(p).query_blocks, 8);
  EXPECT_EQ(tiles_of(p, 64).query_blocks, 16);
  EXPECT_EQ(tiles_of(p, 192).query_blocks, 6);
  p.sequences = 4;
  EXPECT_EQ(tiles_of(p).query_blocks, 2);
  p.query_step = 300;
  EXPECT_EQ(tiles_of(p).query_blocks, 1);
  p.longest_queries = 129;
  EXPECT_EQ(tiles_of(p).query_blocks, 2);
  EXPECT_EQ(tiles_of(p).count(), 8 * 2 * 4);
}

TEST(AttentionSight, TheLastQueryStandsAtTheLastKey) {
  Sequence const s{0, 4, 0, 6};
  for (int query = 0; query < 4; ++query) {
    EXPECT_EQ((Sight{true, 0}.of(s, query).end), query + 3);
    EXPECT_EQ((Sight{true, 2}.of(s, query).begin), query + 1);
    EXPECT_EQ((Sight{false, 0}.of(s, query).end), 6);
  }
  EXPECT_TRUE((Sight{true, 0}.of({0, 6, 0, 4}, 1).empty()));
  EXPECT_TRUE((Sight{true, 0}.all(s, 1, 3, {0, 4})));
  EXPECT_FALSE((Sight{true, 0}.all(s, 1, 3, {0, 5})));
  EXPECT_FALSE((Sight{true, 2}.all(s, 1, 3, {2, 4})));
}

}  // namespace
}  // namespace tessera::attention_sm90
