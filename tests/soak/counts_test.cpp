// SPDX-License-Identifier: Apache-2.0
#include "soak/counts.hpp"

#include <gtest/gtest.h>

namespace tessera::soak {
namespace {

Counts some() {
  Counts counts;
  counts.cases = 3, counts.launches = 100, counts.refused_plans = 1;
  counts.faults["held_tile"] = {10, 9, 1};
  counts.faults["exception"] = {5, 5, 0};
  counts.faults["stall_of_mlp"] = {4, 4, 0};
  return counts;
}

TEST(SoakCounts, AddUpByKind) {
  auto counts = some();
  counts.add(some());
  EXPECT_EQ(counts.cases, 6u);
  EXPECT_EQ(counts.launches, 200u);
  EXPECT_EQ(counts.refused_plans, 2u);
  EXPECT_EQ(counts.faults.at("held_tile"), (FaultCount{20, 18, 2}));
  EXPECT_EQ(counts.all(), (FaultCount{38, 36, 2}));
  EXPECT_EQ(counts.stalls(), 26u) << "an exception takes no deadline";
}

TEST(SoakCounts, AKindThatNeverStallsIsFound) {
  Counts counts;
  counts.faults["held_sms"] = {100, 0, 100};  // may only make results late
  counts.faults["exception"] = {100, 0, 100};
  counts.faults["held_tile"] = {100, 1, 99};
  counts.faults["stall_of_sum"] = {19, 0, 19};
  EXPECT_EQ(counts.never_stalls(), "");
  counts.faults["stall_of_sum"] = {20, 0, 20};
  EXPECT_EQ(counts.never_stalls(), "stall_of_sum");
}

TEST(SoakCounts, AStateIsReadAsItWasWritten) {
  auto const state = read_state(state_text(17, some()));
  ASSERT_TRUE(state);
  EXPECT_EQ(state->seed, 17u);
  EXPECT_EQ(state->counts, some());
  EXPECT_EQ(read_state(state_text(1, {}))->counts, Counts{});
  for (auto const* const text : {"", "1 2 3", "1 2 3 4\nheld_tile 1 2", "1 2 3 4\nheld_tile 1 2 x", "x"})
    EXPECT_FALSE(read_state(text)) << text;
}

TEST(SoakCounts, AreOneLineOfJson) {
  EXPECT_EQ(
      to_json({17, some()}, 0, 12.34),
      "{\"seed\": 17, \"cases\": 3, \"compared_launches\": 100, \"faults\": 19, \"said\": 18, \"right\": 1, "
      "\"stalls\": 13, \"refused_plans\": 1, \"failures\": 0, \"seconds\": 12.3, \"by_kind\": "
      "{\"exception\": {\"faults\": 5, \"said\": 5, \"right\": 0}, "
      "\"held_tile\": {\"faults\": 10, \"said\": 9, \"right\": 1}, "
      "\"stall_of_mlp\": {\"faults\": 4, \"said\": 4, \"right\": 0}}}");
  EXPECT_EQ(to_json({1, {}}, 1, 0).substr(0, 30), "{\"seed\": 1, \"cases\": 0, \"compa");
}

}  // namespace
}  // namespace tessera::soak
