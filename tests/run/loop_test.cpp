// SPDX-License-Identifier: Apache-2.0
// A loop in one persistent launch, with threads for workers: the same records, tickets, lists and waits as on
// a GPU, for a number of iterations that is known only when it runs.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <limits>
#include <thread>

#include "support/loop_run.hpp"
#include "support/random_loop.hpp"
#include "support/real_clock.hpp"
#include "tessera/check/check.hpp"
#include "tessera/plan/deal.hpp"
#include "tessera/run/loop_tables.hpp"

namespace tessera {
namespace {

using Watch = support::RealWatch;

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

  /// `compute(stage of the body, iteration of the launch, tile)`. False: a wait met its deadline. `dealt`:
  /// null, or which tiles a worker computes in a launch with roles.
  template <class Compute>
  bool run(long long iterations, DealtTables const* dealt, Compute const& compute) {
    StallRecord record;
    auto const launch = with_iterations(tables_.launch(plan_), "loop", iterations).value();
    ChainMemory const memory{semaphores_.data(), counters_.data()};
    std::vector<std::thread> threads;
    for (int w = 0; w < launch.workers; ++w)
      threads.emplace_back([&, w] {
        if (dealt != nullptr)
          follow(w, launch, memory, record, *dealt, compute);
        else
          draw(launch, memory, record, compute);
      });
    for (auto& thread : threads) thread.join();
    return record.state == 0;
  }

 private:
  /// As loop_tile_kernel.
  template <class Compute>
  void draw(LoopTickets const& launch, ChainMemory const& memory, StallRecord& record,
            Compute const& compute) {
    auto const tiles = [&](int stage) { return records_[static_cast<std::size_t>(stage)].stage.blocks(); };
    LoopWorker worker(launch, memory);
    auto drawn = worker.next(tiles);
    for (;;) {
      if (drawn.left) return;
      // As the kernel does: the next one is drawn before this one waits.
      auto const next = worker.next(tiles);
      long long iteration = 0;
      bool const asked =
          worker.is_asked_for(drawn, records_[static_cast<std::size_t>(drawn.stage)], iteration);
      if (!one(drawn, asked, iteration, memory, record, compute)) return;
      drawn = next;
    }
  }

  /// As role_kernel: of a shared list a worker has its own first ticket and draws the others, four tiles
  /// ahead of those that it computes; the last one to leave counts the launch.
  template <class Compute>
  void follow(int worker, LoopTickets const& launch, ChainMemory const& memory, StallRecord& record,
              DealtTables const& dealt, Compute const& compute) {
    auto* const drawn = detail::counter(memory, 0, detail::Counter::wait_kernels);
    auto* const leaving = detail::counter(memory, 0, detail::Counter::started);
    auto* const done = detail::counter(memory, 0, detail::Counter::left);
    auto const before = load_counter(done);
    DealtWalk walk(dealt.lists(dealt.tiles.data()), worker, launch.periods());
    std::deque<LoopDraw> ahead;
    long long next = 0;
    bool left = false;
    while (!left || !ahead.empty()) {
      while (!left && ahead.size() < 4) {
        auto const place = !dealt.shared ? next
                           : next == 0   ? worker
                                         : launch.workers + static_cast<long long>(draw_ticket(drawn));
        ++next;
        DealtTile tile;
        LoopDraw draw;
        draw.left = left = !walk.find(place, tile, draw.period);
        draw.stage = tile.stage;
        draw.tile = tile.tile;
        draw.epoch = static_cast<unsigned>(before + static_cast<unsigned long long>(draw.period));
        if (!left) ahead.push_back(draw);
      }
      if (ahead.empty()) break;
      auto const draw = ahead.front();
      ahead.pop_front();
      auto const iteration =
          draw.period * launch.period + records_[static_cast<std::size_t>(draw.stage)].iteration;
      if (!one(draw, iteration < launch.iterations, iteration, memory, record, compute)) return;
    }
    if (draw_ticket(leaving) + 1 != static_cast<unsigned long long>(launch.workers)) return;
    detail::set_counter(drawn, 0);
    detail::set_counter(leaving, 0);
    detail::set_counter(done, before + static_cast<unsigned long long>(launch.periods()));
  }

  template <class Compute>
  bool one(LoopDraw const& draw, bool asked, long long iteration, ChainMemory const& memory,
           StallRecord& record, Compute const& compute) {
    auto const& of = records_[static_cast<std::size_t>(draw.stage)];
    LoopStageView<Watch> view(of, memory, Watch{&record, support::k_patience_ns}, draw);
    if (!view.wait_before_store() || !view.wait_all(operand_a) || !view.wait_all(operand_b)) return false;
    if (asked)
      compute(static_cast<std::size_t>(of.operation), iteration, linear_of(of.stage.grid, view.tile()));
    view.post();
    return true;
  }

  LoopPlan const& plan_;
  LoopTables const& tables_;
  std::vector<unsigned> semaphores_;
  std::vector<unsigned long long> counters_;
  std::vector<LoopRecord> records_;
};

/// Stages of a period with random bytes.
std::vector<StageToDeal> to_deal(LoopTables const& tables, std::uint64_t seed) {
  std::vector<StageToDeal> stages;
  for (auto const& stage : tables.tables.stages)
    stages.push_back({stage.grid.tiles(), static_cast<long long>(support::mix(seed, stages.size()) % 50)});
  return stages;
}

enum class Form { tickets, lists, queue };

void check_random_loops(Form form) {
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
    auto const stages = to_deal(*tables, seed);
    auto const dealt = form == Form::queue
                           ? deal_as_queue(stages)
                           : deal(stages, plan->plan.launches.front().workers, seed % 2 == 0 ? 0 : 60);
    // Launches of different lengths on the same semaphores, one of several periods.
    for (int const iterations : {1 + static_cast<int>(seed % 9), 1, 2 * plan->period + 1}) {
      auto const what = fmt::format("{} iterations of {}", iterations, random::text_of(seed, loop));
      support::LoopRun values(loop, iterations);
      auto const computed = launch.run(
          iterations, form == Form::tickets ? nullptr : &dealt,
          [&](std::size_t stage, long long iteration, std::int64_t tile) {
            // Some tiles come late, so that others would overtake them if they could.
            if ((7 * stage + 5 * static_cast<std::size_t>(iteration) + 3 * static_cast<std::size_t>(tile)) %
                    6 ==
                0)
              std::this_thread::sleep_for(std::chrono::microseconds(60));
            values.compute(static_cast<int>(stage), iteration, tile);
          });
      ASSERT_TRUE(computed) << what;
      ASSERT_EQ(values.wrong(loop_table::meant(loop, iterations)), "") << what;
    }
  }
  EXPECT_GT(run, 60);
}

TEST(LoopLaunch, RandomLoopsAreRightForAnyNumberOfIterations) { check_random_loops(Form::tickets); }
TEST(LoopLaunch, RandomLoopsAreRightByListsOfTheirWorkers) { check_random_loops(Form::lists); }
TEST(LoopLaunch, RandomLoopsAreRightByAQueueThatIsReadAhead) { check_random_loops(Form::queue); }

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
  EXPECT_TRUE(launch.run(0, nullptr, [&](std::size_t, long long, std::int64_t) { ++computed; }));
  EXPECT_EQ(computed, 0);
  EXPECT_TRUE(launch.run(5, nullptr, [&](std::size_t, long long, std::int64_t) { ++computed; }));
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

TEST(LoopLaunch, NamesHowManyOperationsItNeeds) {
  Loop loop;
  loop.body.name = "loop";
  loop.body.stages = {support::make_stage("s0", 3, 1), support::make_stage("s1", 3, 1)};
  auto plan = plan_loop(loop, support::ideal_machine(2)).value();
  EXPECT_TRUE(check_operations(plan, 2));
  EXPECT_EQ(to_text(check_operations(plan, 3).error()),
            "error E0510: loop \"loop\" needs 2 operations, 3 were given\n"
            "   hint: give one for each of its 2 stages, or name those that share one in operations");
  plan.operations = {0, 0};
  EXPECT_TRUE(check_operations(plan, 1));
  EXPECT_EQ(to_text(check_operations(plan, 0).error()),
            "error E0510: loop \"loop\" needs 1 operations, 0 were given\n"
            "   hint: its 2 stages name operations from 0 to 0");
  plan.operations = {0, std::numeric_limits<int>::max()};
  EXPECT_EQ(to_text(check_operations(plan, 2).error()),
            "error E0510: loop \"loop\" needs 2147483648 operations, 2 were given\n"
            "   hint: its 2 stages name operations from 0 to 2147483647");
}

}  // namespace
}  // namespace tessera
