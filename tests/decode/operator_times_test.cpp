// SPDX-License-Identifier: Apache-2.0
// Stamps of a step as times by operator and as a timeline.
#include "kernels/decode/operator_times.hpp"

#include <gtest/gtest.h>

#include <set>

#include "tessera/timeline_json.hpp"

namespace tessera::decode {
namespace {

/// Three layers of two tiles to an operator. In each operator tile 0 is fed 100 ns after the operator before
/// has stored all, reads for 400 and ends for 50; tile 1 is 20 ns later throughout.
StepTimes regular() {
  StepTimes times;
  unsigned long long before = 1000000;
  for (int layer = 0; layer < 3; ++layer)
    for (auto& stage : times) {
      for (unsigned long long const late : {0ull, 20ull})
        stage.push_back({before - 300, before + 100 + late, before + 500 + late, before + 550 + late});
      before += 570;
    }
  return times;
}

TEST(OperatorTimes, AddUpToALayer) {
  auto const found = operator_times(regular(), 3);
  ASSERT_EQ(found.size(), 5u);
  EXPECT_EQ(found[0].name, "qkv");
  EXPECT_EQ(found[4].name, "down");
  double all = 0;
  for (auto const& one : found) {
    EXPECT_NEAR(one.waits, 0.110, 1e-9);
    EXPECT_NEAR(one.reads, 0.400, 1e-9);
    EXPECT_NEAR(one.ends, 0.050, 1e-9);
    EXPECT_NEAR(one.apart, 0.010, 1e-9);
    all += one.all();
  }
  EXPECT_NEAR(all, 5 * 0.570, 1e-9);
  EXPECT_NEAR(attention_block_us(found), 3 * 0.570, 1e-9);
  auto without_mlp = found;
  without_mlp.resize(3);
  EXPECT_DOUBLE_EQ(attention_block_us(without_mlp), attention_block_us(found));
}
TEST(OperatorTimes, AreATimelineThatReadsBack) {
  auto times = regular();
  times[k_qkv][0].fed = 0;  // not noted: it waited for nothing
  auto const timeline = step_timeline(times, 3, "small", "NVIDIA H200");
  ASSERT_EQ(timeline.stages.size(), 5u);
  ASSERT_EQ(timeline.tiles.size(), 30u);
  EXPECT_EQ(timeline.stages[1].extent, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(timeline.end, (300 + 15 * 570) * 1000);
  EXPECT_EQ(timeline.tiles.front().started, 0);
  EXPECT_EQ(timeline.tiles.front().waiting, 0);
  // Two of an operator and, for 300 ns, two of the next.
  EXPECT_EQ(timeline.sms, 4);
  for (auto const& a : timeline.tiles)
    for (auto const& b : timeline.tiles)
      if (&a < &b && a.sm == b.sm) {
        EXPECT_TRUE(a.posted <= b.started || b.posted <= a.started);
      }
  auto const again = parse_timeline(print_timeline(timeline), "t.json");
  ASSERT_TRUE(again) << to_text(again.error());
  EXPECT_EQ(*again, timeline);
}

}  // namespace
}  // namespace tessera::decode
