// SPDX-License-Identifier: Apache-2.0
// A loop in one persistent launch, with threads for workers: the same records, tickets and waits as on a GPU,
// for a number of iterations that is known only when it runs.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "support/loop_run.hpp"
#include "support/random_loop.hpp"
#include "support/real_clock.hpp"
#include "tessera/check/check.hpp"
#include "tessera/run/loop_tables.hpp"

namespace tessera {
namespace {

using Watch = DeadlineWatch<support::RealClock>;

class LoopOnThreads {
 public:
  LoopOnThreads(LoopPlan const& plan, LoopTables const& tables)
      : plan_(plan),
        tables_(tables),
        semaphores_(1),
        counters_(static_cast<std::size_t>(counters_for(static_cast<int>(plan.plan.pipeline.stages.size())))),
        records_(tables.records(tables.tables.numbers.data(), tables.tables.waits.data())) {
    for (auto const& set : plan.plan.semaphores)
      semaphores_.resize(static_cast<std::size_t>(set.first + set.count));
  }

  /// `compute(stage of the body, iteration of the launch, tile)`. False: a wait met its deadline.
  template <class Compute>
  bool run(long long iterations, Compute const& compute) {
    StallRecord record;
    auto const launch = with_iterations(tables_.launch(plan_), "loop", iterations).value();
    ChainMemory const memory{semaphores_.data(), counters_.data()};
    std::vector<std::thread> threads;
    for (int w = 0; w < launch.workers; ++w)
      threads.emplace_back([&] {
        auto const tiles = [&](int stage) {
          return records_[static_cast<std::size_t>(stage)].stage.blocks();
        };
        LoopWorker worker(launch, memory);
        auto draw = worker.next(tiles);
        for (;;) {
          if (draw.left) return;
          // As the kernel does: the next one is drawn before this one waits.
          auto const next = worker.next(tiles);
          auto const& one = records_[static_cast<std::size_t>(draw.stage)];
          LoopStageView<Watch> view(one, memory, Watch{&record, 5'000'000'000ULL}, draw);
          if (!view.wait_before_store() || !view.wait_all(operand_a) || !view.wait_all(operand_b)) return;
          long long iteration = 0;
          if (worker.is_asked_for(draw, one, iteration))
            compute(static_cast<std::size_t>(one.operation), iteration,
                    linear_of(one.stage.grid, view.tile()));
          view.post();
          draw = next;
        }
      });
    for (auto& thread : threads) thread.join();
    return record.state == 0;
  }

 private:
  LoopPlan const& plan_;
  LoopTables const& tables_;
  std::vector<unsigned> semaphores_;
  std::vector<unsigned long long> counters_;
  std::vector<LoopRecord> records_;
};

TEST(LoopLaunch, RandomLoopsAreRightForAnyNumberOfIterations) {
  int run = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    auto const loop = random::loop_of(seed);
    auto const plan = plan_loop(loop, support::ideal_machine(1 + static_cast<int>(seed % 4)));
    if (!plan) {
      ASSERT_NE(plan.error().front().code, "E0116") << random::text_of(seed, loop);
      continue;
    }
    ++run;
    auto const tables = describe_loop(*plan);
    ASSERT_TRUE(tables) << to_text(tables.error());
    LoopOnThreads launch(*plan, *tables);
    // Launches of different lengths on the same semaphores, one of several periods.
    for (int const iterations : {1 + static_cast<int>(seed % 9), 1, 2 * plan->period + 1}) {
      auto const what = fmt::format("{} iterations of {}", iterations, random::text_of(seed, loop));
      support::LoopRun values(loop, iterations);
      ASSERT_TRUE(launch.run(iterations, [&](std::size_t stage, long long iteration, std::int64_t tile) {
        // Some tiles come late, so that others would overtake them if they could.
        if ((7 * stage + 5 * static_cast<std::size_t>(iteration) + 3 * static_cast<std::size_t>(tile)) % 6 ==
            0)
          std::this_thread::sleep_for(std::chrono::microseconds(60));
        values.compute(static_cast<int>(stage), iteration, tile);
      })) << what;
      ASSERT_EQ(values.wrong(loop_table::meant(loop, iterations)), "") << what;
    }
  }
  EXPECT_GT(run, 60);
}

TEST(LoopLaunch, NoIterationsAreNoWork) {
  Loop loop;
  loop.body.name = "loop";
  loop.body.stages = {support::make_stage("s0", 3, 1)};
  auto const plan = plan_loop(loop, support::ideal_machine(2));
  ASSERT_TRUE(plan) << to_text(plan.error());
  auto const tables = describe_loop(*plan);
  ASSERT_TRUE(tables);
  LoopOnThreads launch(*plan, *tables);
  std::atomic<int> computed{0};
  EXPECT_TRUE(launch.run(0, [&](std::size_t, long long, std::int64_t) { ++computed; }));
  EXPECT_EQ(computed, 0);
  EXPECT_TRUE(launch.run(5, [&](std::size_t, long long, std::int64_t) { ++computed; }));
  EXPECT_EQ(computed, 15);
}

TEST(LoopLaunch, RefusesNumbersThatAreNone) {
  Loop loop;
  loop.body.name = "loop";
  loop.body.stages = {support::make_stage("s0", 3, 1)};
  auto plan = plan_loop(loop, support::ideal_machine(2)).value();
  auto const launch = describe_loop(plan).value().launch(plan);
  EXPECT_EQ(
      to_text(with_iterations(launch, "loop", -1).error()),
      "error E0116: a launch of loop \"loop\" cannot have -1 iterations\n   hint: ask for 0 to 2147483647");
  EXPECT_FALSE(with_iterations(launch, "loop", k_most_loop_iterations + 1));
  EXPECT_TRUE(with_iterations(launch, "loop", k_most_loop_iterations));
  plan.operations = {-1};
  EXPECT_EQ(to_text(describe_loop(plan).error()),
            "error E0510: loop \"loop\" has 1 stages; 1 operations were named, from -1 up\n"
            "   hint: name the operation of each stage of the body, from 0 up, or none");
  plan.operations = {0, 1};
  EXPECT_FALSE(describe_loop(plan));
}

}  // namespace
}  // namespace tessera
