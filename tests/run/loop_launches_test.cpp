// SPDX-License-Identifier: Apache-2.0
// A loop as launches that overlap, with threads for blocks: the same records, tickets and waits as on a GPU.
// A launch starts when all blocks of the one before have drawn their tickets, on a GPU of few slots.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <thread>

#include "support/loop_run.hpp"
#include "support/random_loop.hpp"
#include "support/real_clock.hpp"
#include "tessera/run/loop_tables.hpp"

namespace tessera {
namespace {

using Watch = support::RealWatch;

/// What a GPU knows of a launch. Everything here is relaxed: no order of memory comes from it, so that a
/// thread sanitizer sees whether semaphores alone order what tiles read and write.
struct Progress {
  int blocks;
  std::atomic<int> drawn{0};
  std::atomic<int> gone{0};  ///< blocks that have left

  explicit Progress(int all) : blocks(all) {}
  bool has_started() const { return drawn.load(std::memory_order_relaxed) == blocks; }
  bool is_complete() const { return gone.load(std::memory_order_relaxed) == blocks; }
};

class LaunchesOnThreads {
 public:
  LaunchesOnThreads(LoopPlan const& plan, LoopTables const& tables)
      : plan_(plan),
        tables_(tables),
        semaphores_(1),
        counters_(static_cast<std::size_t>(counters_for(static_cast<int>(plan.plan.pipeline.stages.size())))),
        records_(tables.records(tables.tables.numbers.data(), tables.tables.waits.data())) {
    for (auto const& set : plan.plan.semaphores)
      semaphores_.resize(static_cast<std::size_t>(set.first + set.count));
  }

  /// At most `slots` blocks are resident. `compute(stage of the body, iteration, tile)`. False: a wait met
  /// its deadline.
  template <class Compute>
  bool run(long long iterations, int slots, Compute const& compute) {
    auto const asked = with_iterations(tables_.launch(plan_), "loop", iterations).value();
    StallRecord stall;
    std::atomic<int> free{slots};
    std::atomic<bool> stuck{false};
    std::deque<Progress> launches;
    // Gives up with the others, so that a hang ends once.
    auto const wait_for = [&stuck](auto const& holds) {
      if (!support::comes_true([&] { return holds() || stuck.load(std::memory_order_relaxed); }))
        stuck.store(true, std::memory_order_relaxed);
    };
    std::vector<std::thread> threads;
    for (long long period = 0; period < asked.periods(); ++period)
      for (auto const& record : records_) {
        auto const* const before = launches.empty() ? nullptr : &launches.back();
        if (before != nullptr) wait_for([&] { return before->has_started(); });
        auto& own = launches.emplace_back(static_cast<int>(record.stage.blocks()));
        for (int block = 0; block < own.blocks; ++block) {
          wait_for([&] { return free.load(std::memory_order_relaxed) > 0; });
          free.fetch_sub(1, std::memory_order_relaxed);
          threads.emplace_back([&, before, launch = stage_launch(asked, record, period)] {
            ChainMemory const memory{semaphores_.data(), counters_.data()};
            auto const draw = draw_in_launch(record, memory);
            own.drawn.fetch_add(1, std::memory_order_relaxed);  // lets the next launch start
            LoopStageView<Watch> view(record, memory, Watch{&stall, support::k_patience_ns}, draw);
            if (view.wait_before_store() && view.wait_all(operand_a) && view.wait_all(operand_b)) {
              if (launch.asked)
                compute(static_cast<std::size_t>(record.operation), launch.iteration,
                        linear_of(record.stage.grid, view.tile()));
              view.post();
            }
            // Holds its slot until the launches before are complete.
            if (before != nullptr) wait_for([&] { return before->is_complete(); });
            own.gone.fetch_add(1, std::memory_order_relaxed);
            free.fetch_add(1, std::memory_order_relaxed);
          });
        }
      }
    for (auto& thread : threads) thread.join();
    return stall.state == 0 && !stuck;
  }

 private:
  LoopPlan const& plan_;
  LoopTables const& tables_;
  std::vector<unsigned> semaphores_;
  std::vector<unsigned long long> counters_;
  std::vector<LoopRecord> records_;
};

TEST(LoopLaunches, RandomLoopsAreRightForAnyNumberOfIterations) {
  int run = 0;
  for (std::uint64_t seed = 0; seed < 80; ++seed) {
    auto const loop = random::loop_of(seed);
    auto const plan = plan_loop_launches(loop, support::ideal_machine(1 + static_cast<int>(seed % 4)));
    if (!plan) {
      ASSERT_NE(plan.error().front().code, "E0116") << random::text_of(seed, loop);
      continue;
    }
    ++run;
    auto const tables = describe_loop(*plan);
    ASSERT_TRUE(tables) << to_text(tables.error());
    LaunchesOnThreads launches(*plan, *tables);
    // Launches of different lengths on the same semaphores, one of several periods.
    for (int const iterations : {1 + static_cast<int>(seed % 7), 1, 2 * plan->period + 1}) {
      // One slot is the narrowest GPU.
      int const slots = 1 + static_cast<int>((seed + static_cast<std::uint64_t>(iterations)) % 12);
      auto const what =
          fmt::format("{} iterations on {} slots of {}", iterations, slots, random::text_of(seed, loop));
      support::LoopRun values(loop, iterations);
      ASSERT_TRUE(launches.run(
          iterations, slots,
          [&](std::size_t stage, long long iteration, std::int64_t tile) {
            // Some tiles come late, so that others would overtake them if they could.
            if ((7 * stage + 5 * static_cast<std::size_t>(iteration) + 3 * static_cast<std::size_t>(tile)) %
                    11 ==
                0)
              std::this_thread::sleep_for(std::chrono::microseconds(400));
            values.compute(static_cast<int>(stage), iteration, tile);
          }))
          << what;
      ASSERT_EQ(values.wrong(loop_table::meant(loop, iterations)), "") << what;
    }
  }
  EXPECT_GT(run, 30);
}

// A consumer that ends only when the producer of two iterations later has computed: with three copies it may.
TEST(LoopLaunches, AsManyIterationsAreUnderWayAsThereAreCopies) {
  Loop loop;
  loop.body.name = "loop";
  loop.body.stages = {support::make_stage("s0", 2, 1), support::make_stage("s1", 2, 1)};
  loop.body.stages[1].operands = {{"a", "s0", 0, 0}};
  loop.body.dependences = {support::tile_dependence(1, 0)};
  loop.copies = {{"s0", 3}, {"s1", BufferCopies::each_iteration}};
  auto const plan = plan_loop_launches(loop, support::ideal_machine(2));
  ASSERT_TRUE(plan) << to_text(plan.error());
  auto const tables = describe_loop(*plan);
  ASSERT_TRUE(tables);
  LaunchesOnThreads launches(*plan, *tables);
  std::vector<std::atomic<int>> computed(9);
  std::atomic<int> early{0}, late{0};
  EXPECT_TRUE(launches.run(9, 12, [&](std::size_t stage, long long iteration, std::int64_t) {
    auto const n = static_cast<std::size_t>(iteration);
    if (stage == 0) {
      if (n >= 3 && computed[n - 3] < 4) ++early;
      ++computed[n];
      return;
    }
    if (n + 2 < 9 && !support::comes_true([&] { return computed[n + 2] > 0 || late > 0; })) ++late;
    ++computed[n];
  }));
  EXPECT_EQ(late, 0);
  EXPECT_EQ(early, 0);
}

TEST(LoopLaunches, TheLastPeriodIsWhole) {
  Loop loop;
  loop.body.name = "loop";
  loop.body.stages = {support::make_stage("s0", 3, 1)};
  loop.copies = {{"s0", 4}};
  auto const plan = plan_loop_launches(loop, support::ideal_machine(2));
  ASSERT_TRUE(plan) << to_text(plan.error());
  auto const tables = describe_loop(*plan);
  ASSERT_TRUE(tables);
  LaunchesOnThreads launches(*plan, *tables);
  for (int const iterations : {0, 5, 8, 1}) {
    std::vector<std::atomic<int>> computed(9);
    EXPECT_TRUE(launches.run(iterations, 4, [&](std::size_t, long long iteration, std::int64_t) {
      ++computed[static_cast<std::size_t>(iteration)];
    }));
    for (int n = 0; n < 9; ++n)
      EXPECT_EQ(computed[static_cast<std::size_t>(n)], n < iterations ? 3 : 0) << n << " of " << iterations;
  }
}

TEST(LoopLaunches, TheFirstOneStartsBehindAllBefore) {
  LoopRecord first, second;
  second.stage.index = 1;
  second.iteration = 1;
  LoopTickets const tickets{8, 2, 0, 3};
  auto const one = stage_launch(tickets, first, 0), two = stage_launch(tickets, second, 0);
  EXPECT_TRUE(one.first && one.asked && one.iteration == 0);
  EXPECT_TRUE(!two.first && two.asked && two.iteration == 1);
  auto const three = stage_launch(tickets, first, 1), four = stage_launch(tickets, second, 1);
  EXPECT_TRUE(!three.first && three.asked && three.iteration == 2);
  EXPECT_TRUE(!four.first && !four.asked && four.iteration == 3);
}

}  // namespace
}  // namespace tessera
