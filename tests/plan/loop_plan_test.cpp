// SPDX-License-Identifier: Apache-2.0
#include "tessera/plan/loop_plan.hpp"

#include <gtest/gtest.h>

#include "support/plans.hpp"

namespace tessera {
namespace {

/// step reads its neighbours of the step before; sum reads a row of step, and its own of two before.
Loop body() {
  Loop loop;
  loop.body.name = "body";
  loop.body.where = {"body.cpp", 3};
  loop.body.stages = {support::make_stage("step", 8, 1), support::make_stage("sum", 1, 1)};
  loop.body.stages[0].where = {"body.cpp", 4};
  loop.body.stages[0].operands = {{"before", "step", 0, 0}};
  loop.body.stages[1].operands = {{"a", "step", 0, 0}, {"old", "sum", 0, 0}};
  auto const x = TileExpr::dimension(0);
  Access const near{
      {{x + TileExpr::constant(-1), x + TileExpr::constant(2), true}, support::just(TileExpr::dimension(1))}};
  loop.body.dependences = {support::row_dependence(loop.body, 1, 0)};
  loop.carried = {
      {{0, 0, "before", {near}, OnComplete::release_waiters, {}, {}}, 1},
      {{1, 1, "old", support::tile_dependence(1, 1).accesses, OnComplete::release_waiters, {}, {}}, 2}};
  loop.copies = {{"step", 2}, {"sum", 4}};
  return loop;
}

TEST(LoopPlan, APeriodEndsWhereAllBuffersAreBackAtTheirFirstCopies) {
  auto const plan = plan_loop(body(), support::ideal_machine(3));
  ASSERT_TRUE(plan) << to_text(plan.error());
  EXPECT_EQ(plan->period, 4);
  ASSERT_EQ(plan->plan.pipeline.stages.size(), 8u);
  EXPECT_EQ(plan->plan.pipeline.stages[6].output, "step#1");
  EXPECT_EQ(plan->plan.pipeline.stages[7].output, "sum#3");
  EXPECT_EQ(plan->plan.launches.size(), 1u);
  EXPECT_EQ(plan->plan.launches[0].workers, 3);
  // Of the first iterations: step 0 reads step 3 of the period before, sums 0 and 1 read sums 2 and 3.
  ASSERT_EQ(plan->carried.size(), 3u);
  int const expected[3][3] = {{0, 6, 1}, {1, 5, 1}, {3, 7, 1}};
  for (int i = 0; i < 3; ++i) {
    auto const& edge = plan->carried[static_cast<std::size_t>(i)];
    EXPECT_EQ(edge.dependence.consumer, expected[i][0]);
    EXPECT_EQ(edge.dependence.producer, expected[i][1]);
    EXPECT_EQ(edge.distance, expected[i][2]);
    EXPECT_EQ(plan->plan.semaphores[static_cast<std::size_t>(edge.semaphore_set)].producer, expected[i][1]);
  }
  // sum reads all of step's copy, which step overwrites two iterations later without waiting for it.
  int within = 0, across = 0;
  for (auto const& edge : plan->plan.reuse_edges)
    within += edge.writer % 2 == 0 && edge.reader == edge.writer - 3;
  for (auto const& reuse : plan->reuses)
    across += reuse.writer % 2 == 0 && reuse.reader == reuse.writer + 5 && reuse.distance == 1;
  EXPECT_EQ(within, 2);
  EXPECT_EQ(across, 2);
  EXPECT_NE(plan->plan.proof.find("every wait for an earlier period is for an earlier ticket"),
            std::string::npos);
}

TEST(LoopPlan, BuffersThatCarryTheIterationNeedNoSemaphores) {
  // Edges from copies of a stage of the body: within a period, and from earlier ones.
  auto const edges = [](LoopPlan const& plan, int body_stage) {
    auto const of = [&](int producer) { return producer % 2 == body_stage; };
    int within = 0, carried = 0;
    for (auto const& edge : plan.plan.pipeline.dependences) within += of(edge.producer);
    for (auto const& edge : plan.carried) carried += of(edge.dependence.producer);
    return std::pair{within, carried};
  };
  auto const machine = support::ideal_machine(3);
  auto const plain = plan_loop(body(), machine);
  ASSERT_TRUE(plain) << to_text(plain.error());
  EXPECT_TRUE(plain->tokens.empty());
  // Sums 0 to 3 and steps 1 to 3 read a step of the period, step 0 one of the period before.
  EXPECT_EQ(edges(*plain, 0), (std::pair{7, 1}));
  EXPECT_EQ(edges(*plain, 1), (std::pair{2, 2}));

  auto const step = plan_loop(body(), machine, 0, {"step"});
  ASSERT_TRUE(step) << to_text(step.error());
  EXPECT_EQ(step->tokens, std::vector<std::string>{"step"});
  EXPECT_EQ(edges(*step, 0), (std::pair{0, 0}));
  EXPECT_EQ(edges(*step, 1), (std::pair{2, 2}));

  auto const sum = plan_loop(body(), machine, 0, {"sum"});
  ASSERT_TRUE(sum) << to_text(sum.error());
  EXPECT_EQ(edges(*sum, 0), (std::pair{7, 1}));
  EXPECT_EQ(edges(*sum, 1), (std::pair{0, 0}));

  auto const both = plan_loop(body(), machine, 0, {"step", "sum"});
  ASSERT_TRUE(both) << to_text(both.error());
  EXPECT_TRUE(both->plan.dependences.empty());
  EXPECT_TRUE(both->plan.pipeline.dependences.empty());
  EXPECT_TRUE(both->carried.empty());
  // What is left are those that say when a copy has been read.
  for (auto const& set : both->plan.semaphores) {
    bool reader = false;
    for (auto const& edge : both->plan.reuse_edges) reader = reader || edge.reader == set.producer;
    for (auto const& reuse : both->reuses) reader = reader || reuse.reader == set.producer;
    EXPECT_TRUE(reader) << set.producer;
  }
}

/// Pairs (writer, reader) of body stages whose order semaphores keep when a copy is used again.
int kept_reuses(LoopPlan const& plan, int writer, int reader) {
  int count = 0;
  for (auto const& edge : plan.plan.reuse_edges)
    count += edge.writer % 2 == writer && edge.reader % 2 == reader;
  for (auto const& reuse : plan.reuses) count += reuse.writer % 2 == writer && reuse.reader % 2 == reader;
  return count;
}

// Two stages that read all of each other, with one copy of a and two of b: every reuse of a copy is covered
// by what the stages read.
Loop both_ways(std::int64_t tiles_read) {
  Loop loop;
  loop.body.name = "both_ways";
  loop.body.stages = {support::make_stage("a", 4, 1), support::make_stage("b", 4, 1)};
  loop.body.stages[0].operands = {{"before", "b", 0, 0}};
  loop.body.stages[1].operands = {{"now", "a", 0, 0}};
  auto const x = TileExpr::dimension(0);
  Access const all{{{TileExpr::constant(0), TileExpr::constant(4)}, support::just(TileExpr::dimension(1))}};
  Access const some{{{x, x + TileExpr::constant(tiles_read), true}, support::just(TileExpr::dimension(1))}};
  auto const& read = tiles_read < 4 ? some : all;
  loop.body.dependences = {{1, 0, "now", {all}, OnComplete::release_waiters, {}, {}}};
  loop.carried = {{{0, 1, "before", {read}, OnComplete::release_waiters, {}, {}}, 1}};
  loop.copies = {{"b", 2}};
  return loop;
}

TEST(LoopPlan, ACopyIsUsedAgainBehindSemaphoresWhereTokensAreReadInPart) {
  auto const machine = support::ideal_machine(3);
  std::vector<std::string> const tokens = {"a", "b"};
  // b of iteration n + 2 overwrites what a of iteration n + 1 reads, and reads all of a, which is behind it.
  auto const all = plan_loop(both_ways(4), machine, 0, tokens);
  ASSERT_TRUE(all) << to_text(all.error());
  EXPECT_TRUE(all->plan.reuse_edges.empty() && all->reuses.empty());
  // The same order follows from semaphores where a reads a part of b; with tokens each store waits.
  auto const by_semaphores = plan_loop(both_ways(3), machine);
  ASSERT_TRUE(by_semaphores) << to_text(by_semaphores.error());
  EXPECT_EQ(kept_reuses(*by_semaphores, 1, 0), 0);
  auto const some = plan_loop(both_ways(3), machine, 0, tokens);
  ASSERT_TRUE(some) << to_text(some.error());
  EXPECT_EQ(kept_reuses(*some, 1, 0), 2);
  // Of iterations of which only one stage carries tokens, and that stage is read as a whole: as before.
  auto const whole = plan_loop(both_ways(3), machine, 0, {"a"});
  ASSERT_TRUE(whole) << to_text(whole.error());
  EXPECT_EQ(kept_reuses(*whole, 1, 0), 0);
}

TEST(LoopPlan, RefusesFewerThanNoWorkers) {
  auto const plan = plan_loop(body(), support::ideal_machine(3), -1);
  ASSERT_FALSE(plan);
  EXPECT_EQ(to_text(plan.error()),
            "body.cpp:3: error E0116: a launch of loop \"body\" by -1 workers\n"
            "   hint: ask for 1 or more, or 0: as many as fit");
}

TEST(LoopPlan, RefusesTokensThatNoStageWrites) {
  auto const plan = plan_loop(body(), support::ideal_machine(3), 0, {"step", "stp"});
  ASSERT_FALSE(plan);
  EXPECT_EQ(to_text(plan.error()),
            "body.cpp:3: error E0116: no stage writes stp, whose elements shall carry the iteration\n"
            "   hint: name outputs of stages");
}

/// The loop with bytes that tiles read, and a machine whose words are cheaper below 500 bytes.
Loop body_with_bytes(double of_step, double of_sum) {
  auto loop = body();
  loop.body.stages[0].operands[0].bytes_per_block = of_step;
  loop.body.stages[1].operands[0].bytes_per_block = of_step;
  loop.body.stages[1].operands[1].bytes_per_block = of_sum;
  return loop;
}
MachineProfile with_exchanges(MachineProfile machine) {
  Probe probe;
  for (double const senders : {1, 3})
    for (double const bytes : {100, 900}) {
      Figure f;
      f.verified = true;
      f.at = {{"senders", senders}, {"consumers", 1}, {"bytes", bytes}, {"in_flight_bytes", 0}};
      f.id = "exchange.semaphore";
      f.median = 1000;
      probe.figures.push_back(f);
      f.id = "exchange.words";
      f.median = 500 + bytes;
      probe.figures.push_back(f);
    }
  machine.probe = probe;
  return machine;
}

TEST(LoopPlan, CarriesTheIterationWhereItIsCheaper) {
  auto const machine = with_exchanges(support::ideal_machine(3));
  auto const tokens = [&](double of_step, double of_sum, std::vector<std::string> const& offered) {
    auto const plan = plan_loop_by_price(body_with_bytes(of_step, of_sum), machine, {offered, {}});
    EXPECT_TRUE(plan) << to_text(plan.error());
    return plan ? plan->tokens : std::vector<std::string>{"no plan"};
  };
  using Buffers = std::vector<std::string>;
  EXPECT_EQ(tokens(100, 100, {"step", "sum"}), (Buffers{"step", "sum"}));
  EXPECT_EQ(tokens(900, 100, {"step", "sum"}), Buffers{"sum"});
  EXPECT_EQ(tokens(100, 900, {"step", "sum"}), Buffers{"step"});
  EXPECT_EQ(tokens(900, 900, {"step", "sum"}), Buffers{});
  EXPECT_EQ(tokens(100, 100, {"sum"}), Buffers{"sum"});
  EXPECT_EQ(tokens(100, 100, {}), Buffers{});

  auto const loop = body_with_bytes(100, 900);
  auto const by_price = plan_loop_by_price(loop, machine, {{"step", "sum"}, {}});
  auto const by_hand = plan_loop(loop, machine, 0, {"step"});
  ASSERT_TRUE(by_price && by_hand);
  EXPECT_EQ(by_price->plan.pipeline, by_hand->plan.pipeline);
  EXPECT_EQ(by_price->plan.dependences.size(), by_hand->plan.dependences.size());
  EXPECT_EQ(by_price->plan.reuse_edges, by_hand->plan.reuse_edges);
  EXPECT_EQ(by_price->carried.size(), by_hand->carried.size());
  EXPECT_TRUE(by_hand->exchanges.empty());
  ASSERT_EQ(by_price->exchanges.size(), 2u);
  // Sum reads all 8 tiles of step, and there are 3 SMs; step reads at most 3 of its own.
  EXPECT_EQ(by_price->exchanges[0].buffer, "step");
  EXPECT_EQ(
      by_price->exchanges[0].choice.reason,
      "words 1.20 us, semaphores 2.00 us (100 bytes of 3 blocks to 1, 100 bytes of 3 blocks to 3; memory "
      "at rest)");
  EXPECT_EQ(by_price->exchanges[1].buffer, "sum");
  EXPECT_EQ(by_price->exchanges[1].choice.reason,
            "semaphores 1.00 us, words 1.40 us (900 bytes of 1 block to 1; memory at rest)");
}

TEST(LoopPlan, SemaphoresAndWhyWhereExchangesHaveNoPrice) {
  auto const reason = [](Loop const& loop, MachineProfile const& machine) {
    auto const plan = plan_loop_by_price(loop, machine, {{"step"}, {}});
    EXPECT_TRUE(plan && plan->tokens.empty());
    return plan && !plan->exchanges.empty() ? plan->exchanges[0].choice.reason : "";
  };
  EXPECT_EQ(reason(body_with_bytes(100, 100), support::ideal_machine(3)),
            "semaphores: the profile ideal has no figures of the exchanges that are offered");
  EXPECT_EQ(reason(body(), with_exchanges(support::ideal_machine(3))),
            "semaphores: how many bytes a tile reads is not known");
}

TEST(LoopPlan, RefusesOffersThatNoLoopCanMake) {
  auto const machine = with_exchanges(support::ideal_machine(3));
  auto const unknown = plan_loop_by_price(body(), machine, {{"stp"}, {}});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(to_text(unknown.error()),
            "body.cpp:3: error E0116: no stage writes stp, whose elements shall carry the iteration\n"
            "   hint: name outputs of stages");
  auto const negative = plan_loop_by_price(body(), machine, {{"step"}, {-1, 5}});
  ASSERT_FALSE(negative);
  EXPECT_EQ(to_text(negative.error()),
            "body.cpp:3: error E0116: -1 bytes are on their way and 5 loaded ahead on each SM\n"
            "   hint: give bytes of 0 or more");
}

TEST(LoopPlan, AskedForWorkersMustFit) {
  auto const plan = plan_loop(body(), support::ideal_machine(3), 4);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().front().code, "E0302");
}

TEST(LoopPlan, LaunchesThatOverlapHaveTheSamePeriodAndWaits) {
  auto const machine = support::ideal_machine(3);
  auto const one = plan_loop(body(), machine), plan = plan_loop_launches(body(), machine);
  ASSERT_TRUE(one) << to_text(one.error());
  ASSERT_TRUE(plan) << to_text(plan.error());
  EXPECT_TRUE(one->is_persistent());
  EXPECT_FALSE(plan->is_persistent());
  EXPECT_EQ(plan->period, 4);
  EXPECT_EQ(plan->plan.pipeline, one->plan.pipeline);
  EXPECT_EQ(plan->plan.reuse_edges, one->plan.reuse_edges);
  ASSERT_EQ(plan->carried.size(), one->carried.size());
  EXPECT_EQ(plan->reuses.size(), one->reuses.size());
  ASSERT_EQ(plan->plan.launches.size(), 8u);
  for (std::size_t l = 0; l < 8; ++l) {
    auto const& launch = plan->plan.launches[l];
    EXPECT_EQ(launch.first, static_cast<int>(l));
    EXPECT_EQ(launch.start, LaunchStart::early);
    EXPECT_EQ(launch.workers, 0);
    auto const duties = duties_of(plan->plan, static_cast<int>(l));
    EXPECT_EQ(duties.start, Start::ticket);
    EXPECT_TRUE(duties.triggers && duties.completes_after && !duties.waits_for_grid);
  }
  // More tiles than the machine holds at once: 8 on 3 SMs.
  EXPECT_EQ(plan->plan.proof,
            "PDL: a block of sum_3 starts only when all 8 blocks of step_3 have started, as along the whole "
            "chain, so none of the 28 blocks that may wait can keep an earlier one off an SM; every wait for "
            "an earlier period is for an earlier launch");
}

TEST(LoopPlan, OneStageIsALaunchThatOverlapsItself) {
  Loop loop;
  loop.body.name = "loop";
  loop.body.stages = {support::make_stage("s", 3, 1)};
  auto const plan = plan_loop_launches(loop, support::ideal_machine(1));
  ASSERT_TRUE(plan) << to_text(plan.error());
  EXPECT_EQ(
      plan->plan.proof,
      "PDL: a block of s_0 starts only when all blocks of the launch before have started; every wait for "
      "an earlier period is for an earlier launch");
  EXPECT_TRUE(duties_of(plan->plan, 0).triggers);
  // Nobody reads what it writes; yet an iteration's tiles may not come before those of the one before.
  ASSERT_EQ(plan->reuses.size(), 1u);
  EXPECT_EQ(plan->reuses[0].writer, 0);
  EXPECT_EQ(plan->reuses[0].reader, 0);
  EXPECT_EQ(plan->reuses[0].distance, 1);
}

TEST(LoopPlan, RefusesWhatLaunchesCannotRun) {
  auto const refusal = [](Loop const& loop, MachineProfile const& machine) {
    auto const plan = plan_loop_launches(loop, machine);
    return plan ? "accepted" : to_text(plan.error());
  };
  auto old = support::ideal_machine(3);
  old.name = "v100";
  old.has_pdl = false;
  EXPECT_EQ(refusal(body(), old),
            "body.cpp:3: error E0303: v100 has no programmatic dependent launch\n"
            "   hint: plan the loop as one persistent launch: plan_loop()");
  auto const machine = support::ideal_machine(3);
  auto loop = body();
  loop.body.stages[0].can.fuse = false;  // not asked for
  EXPECT_EQ(refusal(loop, machine), "accepted");
  loop.body.stages[0].can.start_early = false;
  EXPECT_EQ(
      refusal(loop, machine),
      "body.cpp:4: error E0116: the kernel of step cannot start before the kernel before it is complete\n"
      "   hint: take a tile function, or plan a number of iterations: check(loop, n)");
  loop.body.stages[0].can = {};
  loop.body.stages[0].can.run_alone = false;
  EXPECT_EQ(plan_loop_launches(loop, machine).error().front().message,
            "the kernel of step cannot be a launch of its own");
  loop.body.stages[0].can = {};
  loop.body.stages[0].can.post = false;
  EXPECT_EQ(plan_loop_launches(loop, machine).error().front().message,
            "the kernel of step cannot post tiles");
  loop = body();
  loop.body.stages[0].splits = 2;
  EXPECT_EQ(plan_loop_launches(loop, machine).error().front().code, "E0116");
  loop = body();
  loop.body.stages[1].resources.shared_bytes = 2 << 20;
  EXPECT_EQ(plan_loop_launches(loop, machine).error().front().code, "E0301");
  loop = body();
  loop.copies.clear();
  EXPECT_EQ(plan_loop_launches(loop, machine).error().front().code, "E0115");
}

TEST(LoopPlan, RefusesWhatOneLaunchCannotRun) {
  auto loop = body();
  loop.copies = {{"step", 9}, {"sum", 8}};
  auto plan = plan_loop(loop, support::ideal_machine(3));
  ASSERT_FALSE(plan);
  EXPECT_EQ(
      to_text(plan.error()),
      R"(body.cpp:3: error E0116: the copies of the buffers repeat after 72 iterations or more, 64 are possible
   hint: give the buffers numbers of copies that divide each other)");
  loop = body();
  loop.body.stages[0].splits = 2;
  plan = plan_loop(loop, support::ideal_machine(3));
  ASSERT_FALSE(plan);
  EXPECT_EQ(
      to_text(plan.error()),
      R"(body.cpp:4: error E0116: step computes its tiles in 2 splits; a loop that is planned once counts one post for a tile and period
   hint: plan the loop with splits of 1, or a number of iterations: check(loop, n))");
  loop = body();
  loop.body.stages[0].can.fuse = false;
  plan = plan_loop(loop, support::ideal_machine(3));
  ASSERT_FALSE(plan);
  EXPECT_EQ(to_text(plan.error()),
            R"(body.cpp:4: error E0116: the kernel of step cannot be one of several stages of a launch
   hint: take a tile function, or plan a number of iterations: check(loop, n))");
  loop = body();
  loop.carried[0].dependence.where = {"body.cpp", 9};
  loop.carried[0].dependence.policy = rows(2);
  plan = plan_loop(loop, support::ideal_machine(3));
  ASSERT_FALSE(plan);
  EXPECT_EQ(to_text(plan.error()),
            "body.cpp:9: error E0116: step waits under the policy " + rows(2).name +
                R"(; in a loop that is planned once each tile has a semaphore of its own
   hint: leave the policy out, or plan a number of iterations: check(loop, n))");
  loop.carried[0].dependence.policy = each_tile();
  EXPECT_TRUE(plan_loop(loop, support::ideal_machine(3)));
  loop.carried[0].dependence.on_complete = OnComplete::start_peer_copy;
  EXPECT_EQ(plan_loop(loop, support::ideal_machine(3)).error().front().message,
            "tiles that step reads go to a peer when they are complete");
  loop = body();
  loop.copies.clear();
  EXPECT_EQ(plan_loop(loop, support::ideal_machine(3)).error().front().code, "E0115");
}

}  // namespace
}  // namespace tessera
