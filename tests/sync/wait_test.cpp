// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <thread>
#include <type_traits>
#include <vector>

#include "support/fake_clock.hpp"
#include "support/real_clock.hpp"
#include "tessera/sync.cuh"

namespace tessera {
namespace {

TEST(Wait, TheComparisonHoldsAcrossTheWrap) {
  static_assert(reached(5, 5) && reached(6, 5) && !reached(4, 5));
  static_assert(reached(2, 0xFFFFFFFEu) && !reached(0xFFFFFFFEu, 2));
}

TEST(Wait, ADeadlineRecordsTheFirstStallOnly) {
  unsigned semaphore = 7;
  StallRecord record;
  support::FakeWatch const watch{&record, 100};
  EXPECT_FALSE(wait_until<Scope::device>(&semaphore, 9u, watch, WaitPlace{2, 33, 4}));
  EXPECT_EQ(record.state, 2u);
  EXPECT_EQ(record.stage, 2);
  EXPECT_EQ(record.tile, 33);
  EXPECT_EQ(record.semaphore, 4);
  EXPECT_EQ(record.seen, 7u);
  EXPECT_EQ(record.expected, 9u);
  EXPECT_GE(record.waited_ns, 100u);
  EXPECT_FALSE(wait_until<Scope::device>(&semaphore, 8u, watch, WaitPlace{1, 1, 1}));
  EXPECT_EQ(record.stage, 2);
  // What is already there is there, stall or not.
  EXPECT_TRUE(wait_until<Scope::device>(&semaphore, 7u, watch, WaitPlace{}));
}

template <Scope S>
void expect_message_passing() {
  StallRecord stall;
  support::RealWatch const watch{&stall, support::k_patience_ns};
  // Hundreds of hand-overs of a plain integer in both directions.
  unsigned to = 0;
  unsigned from = 0xFFFFFF80u;  // wraps on the way
  int value = 0;
  unsigned const start = from;
  std::thread other([&] {
    for (unsigned round = 1; round <= 300; ++round) {
      if (!wait_until<S>(&to, round, watch, WaitPlace{})) return;
      value = value * 2 % 1009 + 1;
      add_release<S>(&from, 1u);
    }
  });
  int expected = 0;
  for (unsigned round = 1; round <= 300; ++round) {
    value += 3;
    store_release<S>(&to, round);
    if (!wait_until<S>(&from, start + round, watch, WaitPlace{})) break;
    expected = (expected + 3) * 2 % 1009 + 1;
    EXPECT_EQ(value, expected);
  }
  other.join();
  EXPECT_EQ(stall.state, 0u);
}

TEST(Wait, WhatWasWrittenBeforeThePostIsThereAfterTheWait) {
  expect_message_passing<Scope::block>();
  expect_message_passing<Scope::device>();
  expect_message_passing<Scope::system>();
}

TEST(Wait, TicketsAreDrawnOnce) {
  unsigned long long counter = 0;
  std::vector<unsigned long long> drawn(400);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        auto const ticket = draw_ticket(&counter);
        ++drawn[ticket];
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(drawn, std::vector<unsigned long long>(400, 1));
}

/// A tile of the second stage reads a row of four tiles of the first.
template <class APolicy>
struct RowOfFour {
  struct Set {
    using Policy = APolicy;
    static constexpr TileGrid grid() { return {2, {4, 2, 1, 1}}; }
    static constexpr int splits = 1;
    static constexpr long long first = 0;
  };
  struct Reads {
    using Set = RowOfFour::Set;
    static constexpr int accesses = 1;
    static constexpr TileBox box(int, Tile const& tile) {
      return cut_box(Set::grid(), {0, 4}, {tile.at[1], tile.at[1] + 1});
    }
  };
  static constexpr int index = 1;
  static constexpr TileGrid grid() { return Set::grid(); }
  static constexpr int splits = 1;
  using Order = RowMajor;
  static constexpr Start start = Start::worker;
  static constexpr bool custom_order = false;
  static constexpr bool reorder_loads = false;
  static constexpr bool plain_store = false;
  static constexpr bool triggers_at_start = false;
  static constexpr bool completes_after_previous = false;
  static constexpr bool announces_start = false;
  using Operands = tessera::Operands<After<Reads>>;
  using Posts = Sets<>;
  using BeforeStore = Sets<>;
};
template <class Policy>
using Impatient = StageView<RowOfFour<Policy>, support::FakeWatch>;

TEST(Wait, AStallIsToldWhereTheRecordSays) {
  unsigned told = 0;
  unsigned semaphore = 0;
  StallRecord record;
  record.told = &told;
  support::FakeWatch const watch{&record, 100};
  EXPECT_TRUE(wait_until<Scope::device>(&semaphore, 0, watch, {}));
  EXPECT_EQ(told, 0u);
  EXPECT_FALSE(wait_until<Scope::device>(&semaphore, 1, watch, {}));
  EXPECT_EQ(told, 1u);
  // Once: who comes later leaves, and what the host has read is not raised again.
  told = 0;
  EXPECT_FALSE(wait_until<Scope::device>(&semaphore, 1, watch, {}));
  EXPECT_EQ(told, 0u);
}

TEST(Wait, ATileWithOneSemaphoreLooksOnce) {
  unsigned semaphores[8] = {0, 4};
  StallRecord record;
  Impatient<RowSync> stage({semaphores, nullptr}, {&record, 100});
  stage.begin(5, 0);
  EXPECT_TRUE(stage.wait(operand_a, Tile{{0, 1}}));
  semaphores[1] = 0;
  EXPECT_TRUE(stage.wait(operand_a, Tile{{3, 1}}));
  // The next tile looks again.
  stage.begin(6, 0);
  EXPECT_FALSE(stage.wait(operand_a, Tile{{0, 1}}));
}
TEST(Wait, ATileWithASemaphoreForEachOfItsTilesLooksAtEach) {
  unsigned semaphores[8] = {0, 0, 0, 0, 1, 1, 1, 0};
  StallRecord record;
  Impatient<TileSync> stage({semaphores, nullptr}, {&record, 100});
  stage.begin(5, 0);
  for (int x = 0; x < 3; ++x) EXPECT_TRUE(stage.wait(operand_a, Tile{{x, 1}}));
  EXPECT_FALSE(stage.wait(operand_a, Tile{{3, 1}}));
}

TEST(Views, CanBePassedToKernels) {
  static_assert(std::is_trivially_copyable_v<ChainMemory>);
  static_assert(std::is_trivially_copyable_v<DeadlineWatch<>>);
  static_assert(std::is_trivially_copyable_v<StallRecord>);
}

}  // namespace
}  // namespace tessera
