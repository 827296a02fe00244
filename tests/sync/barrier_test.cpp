// SPDX-License-Identifier: Apache-2.0
// The barriers on CPU threads, each of which is a block of one thread.
#include "tessera/sync/barrier.cuh"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <thread>
#include <vector>

#include "support/fake_clock.hpp"
#include "support/real_clock.hpp"

namespace tessera {
namespace {

using Watch = support::RealWatch;
using support::FakeWatch;

/// On the fake clock: enough polls for a barrier to look who is missing.
constexpr unsigned long long k_soon = 5000;

template <class Body>
void on_threads(unsigned count, Body body) {
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < count; ++t) threads.emplace_back([&body, t] { body(t); });
  for (auto& thread : threads) thread.join();
}

class Barrier : public testing::Test {
 protected:
  Watch watch() { return {&record, support::k_patience_ns}; }
  StallRecord record;
};

// Every thread writes its cell, meets the others, and reads all cells: plain memory, so that ThreadSanitizer
// sees a barrier that orders too little.
template <class Kind>
void count_rounds(std::vector<unsigned>& words, unsigned parties, unsigned rounds, Watch const& watch) {
  std::vector<unsigned> cells(parties, 0);
  std::atomic<unsigned> wrong{0};
  on_threads(parties, [&](unsigned party) {
    Kind barrier({words.data(), parties}, party, watch);
    for (unsigned round = 1; round <= rounds; ++round) {
      cells[party] = round;
      if (!barrier.sync()) ++wrong;
      for (unsigned other = 0; other < parties; ++other) wrong += cells[other] != round;
      if (!barrier.sync()) ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0u);
}

TEST_F(Barrier, EveryoneSeesWhatEveryoneWroteBefore) {
  std::vector<unsigned> words(grid_barrier_words(4), 0);
  count_rounds<GridBarrier<Watch>>(words, 4, 60, watch());
  std::vector<unsigned> epochs(epoch_barrier_words(4), 0);
  count_rounds<EpochBarrier<Watch>>(epochs, 4, 60, watch());
  for (unsigned party = 0; party < 4; ++party) EXPECT_EQ(epochs[party * k_epoch_apart], 120u);
}

TEST_F(Barrier, TheNextLaunchGoesOnWithoutAReset) {
  std::vector<unsigned> words(grid_barrier_words(3), 0);
  std::vector<unsigned> epochs(epoch_barrier_words(3), 0);
  for (int launch = 0; launch < 5; ++launch) {
    // An odd number of barriers in some: the counter is left on either side.
    count_rounds<GridBarrier<Watch>>(words, 3, 7, watch());
    on_threads(3, [&](unsigned party) {
      EXPECT_TRUE(GridBarrier<Watch>({words.data(), 3}, party, watch()).sync());
    });
    count_rounds<EpochBarrier<Watch>>(epochs, 3, 7, watch());
  }
  EXPECT_EQ(epochs[0], 70u);
}

TEST_F(Barrier, EpochsWrap) {
  std::vector<unsigned> words(epoch_barrier_words(3), 0xFFFFFFFAu);
  count_rounds<EpochBarrier<Watch>>(words, 3, 10, watch());
  EXPECT_EQ(words[k_epoch_apart], 14u);
}

// One thread plays all parties: nobody can wait before all have arrived.
TEST_F(Barrier, ManyPartiesShareSeveralCounters) {
  unsigned const parties = 1056;
  std::vector<unsigned> words(grid_barrier_words(parties), 0);
  for (int launch = 0; launch < 3; ++launch) {
    std::vector<GridBarrier<Watch>> all;
    for (unsigned party = 0; party < parties; ++party)
      all.emplace_back(BarrierWords{words.data(), parties}, party, Watch{&record, 1});
    for (int round = 0; round < 3; ++round) {
      for (unsigned party = 0; party < parties; ++party) all[(party * 5) % parties].arrive();
      for (auto const& one : all) ASSERT_TRUE(one.wait());
    }
    EXPECT_EQ(record.state, 0u);
  }
}

TEST_F(Barrier, OneThatIsMissingAmongManyIsNamed) {
  unsigned const parties = 1056, missing = 777;
  std::vector<unsigned> words(grid_barrier_words(parties), 0);
  FakeWatch const soon{&record, k_soon};
  std::vector<GridBarrier<FakeWatch>> all;
  for (unsigned party = 0; party < parties; ++party)
    all.emplace_back(BarrierWords{words.data(), parties}, party, soon);
  for (unsigned party = 0; party < parties; ++party)
    if (party != missing) all[party].arrive();
  EXPECT_FALSE(all[3].wait());
  EXPECT_EQ(record.state, 2u);
  EXPECT_EQ(record.tile, 3);
  EXPECT_EQ(record.semaphore, missing);
  EXPECT_EQ(record.seen, 131u) << "of the 132 that share its counter";
  EXPECT_EQ(record.expected, 132u);
}

TEST_F(Barrier, ArriveLetsTheOthersGoOnAlone) {
  std::vector<unsigned> words(epoch_barrier_words(2), 0);
  EpochBarrier<Watch> first({words.data(), 2}, 0, watch());
  EpochBarrier<Watch> second({words.data(), 2}, 1, watch());
  first.arrive();
  second.arrive();
  // One thread plays both parties: no wait can be for the other's wait.
  EXPECT_TRUE(first.wait());
  first.arrive();
  EXPECT_TRUE(second.wait()) << "one that is ahead disturbs nobody";
  EXPECT_EQ(first.epoch(), 2u);
}

TEST_F(Barrier, NeighboursWaitForNobodyElse) {
  // A line of cells, each the larger of itself and its neighbours: after `parties` steps all hold the
  // largest. Two buffers by turns, as neighbours may be one step ahead.
  unsigned const parties = 5;
  std::vector<unsigned> words(epoch_barrier_words(parties), 0);
  std::vector<unsigned> cells[2];
  cells[0] = {3, 9, 1, 4, 2};
  cells[1].assign(parties, 0);
  on_threads(parties, [&](unsigned party) {
    EpochBarrier<Watch> barrier({words.data(), parties}, party, watch());
    unsigned const first = party == 0 ? 1 : party - 1;
    unsigned const count = party == 0 || party + 1 == parties ? 1 : 2;
    for (unsigned step = 0; step < parties; ++step) {
      auto const& from = cells[step % 2];
      unsigned best = from[party];
      for (unsigned i = 0; i < count; ++i) best = std::max(best, from[first + 2 * i]);
      cells[(step + 1) % 2][party] = best;
      barrier.arrive();
      EXPECT_TRUE(barrier.wait_for(count, [&](unsigned i) { return first + 2 * i; }));
    }
  });
  EXPECT_EQ(cells[parties % 2], std::vector<unsigned>(parties, 9u));
}

template <class Kind>
void two_of_three(StallRecord& record, std::vector<unsigned> words) {
  FakeWatch const soon{&record, k_soon};
  std::atomic<int> gave_up{0};
  // Whoever waits has seen both arrive, however slow the host starts threads.
  std::latch both(2);
  on_threads(2, [&](unsigned party) {
    Kind barrier({words.data(), 3}, party, soon);
    barrier.arrive();
    both.arrive_and_wait();
    gave_up += !barrier.wait();
  });
  EXPECT_EQ(gave_up, 2);
  EXPECT_GE(record.waited_ns, k_soon);
  EXPECT_EQ(record.state, 2u);
  EXPECT_EQ(record.semaphore, 2) << "the third party's word";
}

TEST_F(Barrier, AMissingPartyMeetsTheDeadline) {
  two_of_three<EpochBarrier<FakeWatch>>(record, std::vector<unsigned>(epoch_barrier_words(3), 0));
  EXPECT_EQ(record.expected, 1u);
}

TEST_F(Barrier, AMissingBlockOfAGridMeetsTheDeadline) {
  two_of_three<GridBarrier<FakeWatch>>(record, std::vector<unsigned>(grid_barrier_words(3), 0));
  EXPECT_EQ(record.seen, 2u);
  EXPECT_EQ(record.expected, 3u);
}

}  // namespace
}  // namespace tessera
