// SPDX-License-Identifier: Apache-2.0
// Table IV of the paper: GPT-3's MLP on a V100 (80 SMs), two blocks per SM up to batch 256 and one above.
//
// Where the printed totals disagree with blocks / (occupancy * SMs), the definition is right:
//   batch 1-64: cuSync waves printed 1.8, are 1.5 (240 blocks / 160)
//   batch 512:  stream order printed 6, are 4 (2 + 2); cuSync printed 4.8, are 2.4 (192 / 80)
//   batch 1024: stream order printed 5, are 6 (3 + 3); cuSync printed 3.6, are 4.8 (384 / 80)
// Fractions are printed rounded down there: 0.45 is "0.4" and 1.35 is "1.3" (batch 128).
#include "tessera/plan/waves.hpp"

#include <gtest/gtest.h>

namespace tessera {
namespace {

struct Row {
  char const* batch;
  int rows1, columns1, splits1;
  char const* waves1;
  int rows2, columns2, splits2;
  char const* waves2;
  int occupancy;
  int stream_order;
  char const* filled;
};

class Table4 : public testing::TestWithParam<Row> {};

Stage grid_of(int rows, int columns, int splits) {
  Stage stage;
  stage.grid = {{"x", columns}, {"y", rows}};
  stage.splits = splits;
  return stage;
}

TEST_P(Table4, waves_are_exact) {
  auto const& row = GetParam();
  constexpr int k_sms = 80;
  Pipeline pipeline;
  pipeline.stages = {grid_of(row.rows1, row.columns1, row.splits1),
                     grid_of(row.rows2, row.columns2, row.splits2)};
  int const slots = row.occupancy * k_sms;
  EXPECT_EQ(waves_text(pipeline.stages[0].blocks(), slots), row.waves1);
  EXPECT_EQ(waves_text(pipeline.stages[1].blocks(), slots), row.waves2);
  auto const count = count_waves(pipeline, {row.occupancy, row.occupancy}, k_sms);
  EXPECT_EQ(count.stream_order, row.stream_order);
  EXPECT_EQ(count.filled_text, row.filled);
}

INSTANTIATE_TEST_SUITE_P(Batches, Table4,
                         testing::Values(Row{"64", 1, 24, 4, "0.6", 1, 48, 3, "0.9", 2, 2, "1.5"},
                                         Row{"128", 1, 24, 3, "0.4", 1, 48, 3, "0.9", 2, 2, "1.3"},
                                         Row{"256", 1, 48, 4, "1.2", 1, 96, 2, "1.2", 2, 4, "2.4"},
                                         Row{"512", 2, 24, 2, "1.2", 2, 48, 1, "1.2", 1, 4, "2.4"},
                                         Row{"1024", 4, 24, 2, "2.4", 4, 48, 1, "2.4", 1, 6, "4.8"},
                                         Row{"2048", 8, 24, 1, "2.4", 8, 48, 1, "4.8", 1, 8, "7.2"}),
                         [](auto const& row) { return std::string("batch") + row.param.batch; });

TEST(Waves, whole_and_fractional) {
  EXPECT_EQ(whole_waves(80, 80), 1);
  EXPECT_EQ(whole_waves(81, 80), 2);
  EXPECT_EQ(waves_text(79, 80), "0.9");
  EXPECT_EQ(waves_text(80, 80), "1.0");
  EXPECT_DOUBLE_EQ(waves(72, 160), 0.45);
}

}  // namespace
}  // namespace tessera
