// SPDX-License-Identifier: Apache-2.0
// Grouped GEMMs: no tile has rows of two groups, and each group has a right-hand matrix of its own.
#include <gmock/gmock.h>

#include "tessera/describe/tile_relation.hpp"
#include "tessera/describe/workload.hpp"
#include "tessera/describe/workload_json.hpp"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Two GEMMs, rows in groups of 100, 1 and 64; 48 columns of depth 32, then 32 columns of depth 48.
OperatorGraph experts() {
  OperatorGraph graph;
  graph.name = "experts";
  Operator up{"up", OperatorKind::gemm, Epilogue::none, 165, 48, 32, 1, {}, "", {}, {100, 1, 64}};
  up.inputs = {{"a", "x", "", {}}, {"b", "w_up", "", {}}};
  Operator down{"down", OperatorKind::gemm, Epilogue::none, 165, 32, 48, 1, {}, "", {}, {100, 1, 64}};
  down.inputs = {{"a", "up", "up", ReadPattern::rows}, {"b", "w_down", "", {}}};
  graph.operators = {up, down};
  return graph;
}

TileChoice cut(int rows, int columns) {
  TileChoice choice;
  choice.kernel.name = "test";
  choice.kernel.tile_m = rows, choice.kernel.tile_n = columns, choice.kernel.tile_k = 16;
  choice.kernel.splits = k_any_splits;
  choice.kernel.forms = {{{ElementType::bf16}, {Epilogue::none}, 2, {}}};
  return choice;
}

TEST(Groups, TilesEndWhereGroupsDo) {
  auto const pipeline = tile(experts(), {cut(64, 16), cut(64, 32)});
  ASSERT_TRUE(pipeline) << to_text(pipeline.error());
  // 100 rows are two tiles, 1 row is one, 64 rows are one: four, where 165 rows without groups are three.
  EXPECT_EQ(pipeline->stages[0].grid[1].extent, 4);
  EXPECT_EQ(pipeline->stages[1].grid[1].extent, 4);
  TileRelation const reads(*pipeline, pipeline->dependences[0]);
  std::vector<std::int64_t> producers;
  for (int row = 0; row < 4; ++row) {
    reads.producers_of(row, producers);  // the second GEMM has one column of tiles
    EXPECT_THAT(producers, ElementsAre(3 * row, 3 * row + 1, 3 * row + 2));
  }
}

TEST(Groups, EachHasAMatrixOfItsOwn) {
  auto const pipeline = tile(experts(), {cut(64, 16), cut(64, 32)});
  ASSERT_TRUE(pipeline) << to_text(pipeline.error());
  auto const& weights = pipeline->stages[0].operands[1];
  EXPECT_EQ(weights.unique_bytes, 3.0 * 48 * 32 * 2);
  EXPECT_EQ(weights.bytes_per_block, 16.0 * 32 * 2);
  EXPECT_EQ(pipeline->stages[0].operands[0].unique_bytes, 165.0 * 32 * 2);
  for (auto const& buffer : pipeline->buffers)
    EXPECT_EQ(buffer.batch, buffer.name[0] == 'w' ? 3 : 1) << buffer.name;
}

TEST(Groups, MustBeCutAlike) {
  auto const uneven = tile(experts(), {cut(128, 16), cut(64, 32)});
  ASSERT_FALSE(uneven);
  EXPECT_THAT(to_text(uneven.error()),
              HasSubstr("E0151: groups of up and down must be cut into tiles of as many rows, "
                        "not 128 and 64"));
  auto whole = cut(64, 16);
  whole.kernel.whole = true;
  EXPECT_THAT(to_text(tile(experts(), {whole, whole}).error()), HasSubstr("one matrix, not 3 groups"));
}

TEST(Groups, MustBeTheOperatorsRows) {
  auto const refusal = [](auto&& change) {
    auto graph = experts();
    change(graph.operators[0], graph.operators[1]);
    auto const pipeline = tile(graph, {cut(64, 16), cut(64, 32)});
    return pipeline ? "tiled" : to_text(pipeline.error());
  };
  EXPECT_EQ(refusal([](Operator&, Operator&) {}), "tiled");
  EXPECT_THAT(refusal([](Operator& up, Operator&) { up.groups[0] = 99; }),
              HasSubstr("164 rows together, and m is 165"));
  EXPECT_THAT(refusal([](Operator& up, Operator&) { up.groups[1] = 0; }), HasSubstr("a group has 0 rows"));
  EXPECT_THAT(refusal([](Operator&, Operator& down) { down.groups = {165}; }),
              HasSubstr("grouped in different ways"));
  EXPECT_THAT(refusal([](Operator&, Operator& down) { down.groups.clear(); }),
              HasSubstr("grouped in different ways"));
  EXPECT_THAT(refusal([](Operator& up, Operator& down) { up.batch = down.batch = 2; }),
              HasSubstr("only a gemm without a batch"));
}

TEST(Groups, StandInFiles) {
  auto const text = print_workload(Workload(experts()));
  EXPECT_THAT(text, HasSubstr("\"groups\""));
  auto const again = parse_workload(text, "experts.json");
  ASSERT_TRUE(again) << to_text(again.error());
  EXPECT_THAT(std::get<OperatorGraph>(*again).operators[1].groups, ElementsAre(100, 1, 64));
}

}  // namespace
}  // namespace tessera
