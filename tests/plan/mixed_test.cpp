// SPDX-License-Identifier: Apache-2.0
// Plans that mix mechanisms: what follows from launches, parts cut out and joined, proofs.
#include <gtest/gtest.h>

#include "plan/assemble.hpp"
#include "support/plans.hpp"
#include "support/stopwatch.hpp"
#include "tessera/check/check.hpp"
#include "tessera/plan/build.hpp"
#include "tessera/plan/parts.hpp"
#include "tessera/plan/progress.hpp"

namespace tessera {
namespace {

using support::ideal_machine;
using support::make_stage;

/// Five stages of 4 x 2 tiles, each reading whole rows of the one before.
Pipeline chain() {
  Pipeline pipeline;
  pipeline.name = "chain";
  for (char const* const name : {"a", "b", "c", "d", "e"}) {
    int const stage = static_cast<int>(pipeline.stages.size());
    pipeline.stages.push_back(make_stage(name, 4, 2));
    if (stage == 0) continue;
    pipeline.stages.back().operands = {
        {"a", pipeline.stages[static_cast<std::size_t>(stage) - 1].name, 0, 0}};
    pipeline.dependences.push_back(support::row_dependence(pipeline, stage, stage - 1));
  }
  return pipeline;
}

Plan part(Pipeline const& whole, int first, int end, Mechanism mechanism, MachineProfile const& machine) {
  auto const checked = check(part_of(whole, first, end).pipeline);
  EXPECT_TRUE(checked);
  Recipe recipe;
  recipe.mechanism = mechanism;
  auto plan = build_plan(*checked, machine, recipe);
  EXPECT_TRUE(plan) << to_text(plan.error());
  return *plan;
}

/// a in order, b early, then c and d in one persistent launch that starts early, e in order.
Plan mixed(MachineProfile const& machine) {
  auto const whole = chain();
  return join(whole, {},
              {{part(whole, 0, 2, Mechanism::pdl_tiles, machine), LaunchStart::in_order},
               {part(whole, 2, 4, Mechanism::fused, machine), LaunchStart::early},
               {part(whole, 4, 5, Mechanism::stream_order, machine), LaunchStart::in_order}});
}

std::string outcome(Plan const& plan, MachineProfile const& machine) {
  auto const proof = prove_progress(plan, machine);
  return proof ? *proof : to_text(proof.error());
}

TEST(Mixed, PartsKeepTheirVariants) {
  auto const machine = ideal_machine(4);
  auto const whole = chain();
  auto first = part(whole, 0, 2, Mechanism::pdl_tiles, machine);
  first.stages[1].variant = "algorithm 7";
  auto const joined = join(whole, {},
                           {{first, LaunchStart::in_order},
                            {part(whole, 2, 5, Mechanism::stream_order, machine), LaunchStart::in_order}});
  EXPECT_EQ(joined.stages[1].variant, "algorithm 7");
  EXPECT_EQ(joined.stages[2].variant, "");
  EXPECT_EQ(part_of(joined, 1, 3).stages[0].variant, "algorithm 7");
  EXPECT_NE(describe(joined).find(", b by algorithm 7"), std::string::npos) << describe(joined);
}

TEST(Mixed, JoinedPartsSayHowEachEdgeIsKept) {
  auto const plan = mixed(ideal_machine(4));
  EXPECT_EQ(mechanism_text(plan), "mixed: a > b > [c d] | e");
  EXPECT_EQ(mechanism_of(plan), std::nullopt);
  ASSERT_EQ(plan.launches.size(), 4u);
  ASSERT_EQ(plan.dependences.size(), 4u);
  EXPECT_EQ(kept_by(plan, plan.dependences[0]), KeptBy::semaphores);
  EXPECT_EQ(kept_by(plan, plan.dependences[1]), KeptBy::grid_wait);
  EXPECT_EQ(kept_by(plan, plan.dependences[2]), KeptBy::semaphores);
  EXPECT_EQ(kept_by(plan, plan.dependences[3]), KeptBy::completion);
  EXPECT_EQ(kept_by(plan, 3, 2, -1), KeptBy::nothing);  // d after c, in one launch
  ASSERT_EQ(plan.semaphores.size(), 2u);
  EXPECT_EQ(plan.semaphores[1].producer, 2);
  EXPECT_EQ(plan.semaphores[1].first, plan.semaphores[0].count);
}

TEST(Mixed, DutiesFollowFromLaunchesAndEdges) {
  auto const plan = mixed(ideal_machine(4));
  auto const a = duties_of(plan, 0), b = duties_of(plan, 1), c = duties_of(plan, 2), d = duties_of(plan, 3),
             e = duties_of(plan, 4);
  EXPECT_TRUE(a.triggers && b.triggers);
  EXPECT_FALSE(c.triggers || d.triggers || e.triggers);
  EXPECT_FALSE(a.completes_after || e.completes_after);
  EXPECT_TRUE(b.completes_after && c.completes_after && d.completes_after);
  EXPECT_TRUE(c.waits_for_grid);
  EXPECT_FALSE(b.waits_for_grid || d.waits_for_grid || e.waits_for_grid);
  EXPECT_EQ(c.start, Start::worker);
  EXPECT_TRUE(b.needs_epoch && d.needs_epoch);
  EXPECT_FALSE(e.needs_epoch);
}

TEST(Mixed, PartsComeBackOut) {
  auto const machine = ideal_machine(4);
  auto const whole = chain();
  auto const plan = mixed(machine);
  auto const fused = part_of(plan, 2, 4);
  auto const alone = part(whole, 2, 4, Mechanism::fused, machine);
  EXPECT_EQ(fused.pipeline, alone.pipeline);
  EXPECT_EQ(fused.launches, alone.launches);
  EXPECT_EQ(fused.stages, alone.stages);
  ASSERT_EQ(fused.dependences.size(), 1u);
  EXPECT_EQ(fused.dependences[0].semaphore_set, 0);
}

TEST(Mixed, ProofOfEachGroup) {
  auto const machine = ideal_machine(4);
  EXPECT_EQ(
      outcome(mixed(machine), machine),
      "2 groups of launches, each complete before the next starts; a to d: PDL: a block of the persistent "
      "launch of c to d starts only when all 8 blocks of b have started, as along the whole chain, so none "
      "of the 12 blocks that may wait can keep an earlier one off an SM; fused: 4 workers resident at once "
      "(4 fit), and tickets go stage by stage, so every tile comes after those that it waits for");
}

TEST(Mixed, AnEdgeThatNothingKeepsIsRefused) {
  auto const machine = ideal_machine(4);
  auto plan = mixed(machine);
  plan.pipeline.dependences[2].where = {"chain.cpp", 12};
  plan.dependences[2].semaphore_set = -1;
  EXPECT_EQ(
      outcome(plan, machine),
      "chain.cpp:12: error E0302: d reads what c writes, and nothing makes it wait: both are in one launch\n"
      "   hint: give it a semaphore set, or a launch to each of the two");
}

TEST(Mixed, StreamsBesideEachOtherAreAGroupOfTheirOwn) {
  auto const machine = ideal_machine(4);
  auto const whole = chain();
  auto const streams = part(whole, 0, 3, Mechanism::wait_kernel, machine);
  auto const plan = join(whole, {},
                         {{streams, LaunchStart::in_order},
                          {part(whole, 3, 5, Mechanism::pdl, machine), LaunchStart::in_order}});
  EXPECT_EQ(groups_of(plan).size(), 2u);
  EXPECT_EQ(mechanism_of(plan, groups_of(plan)[0]), Mechanism::wait_kernel);
  EXPECT_EQ(mechanism_of(plan, groups_of(plan)[1]), Mechanism::pdl);
  EXPECT_TRUE(prove_progress(plan, machine));
  // The same streams without wait kernels cannot be proved on four SMs, in a mixed plan neither.
  auto risky = plan;
  for (auto& launch : risky.launches) launch.wait_kernel = false;
  auto alone = streams;
  for (auto& launch : alone.launches) launch.wait_kernel = false;
  EXPECT_FALSE(prove_progress(alone, machine));
  EXPECT_EQ(outcome(risky, machine), outcome(alone, machine));
}

// As of a loop that is written out: whoever overwrites a copy waits for each iteration before.
TEST(Mixed, EdgesOfManyReusesTakeNoLongerThanTheyAreMany) {
  constexpr int stages = 800, pairs = stages * (stages - 1) / 2;
  Pipeline whole;
  std::vector<BufferReuse> reuses;
  for (int s = 0; s < stages; ++s) {
    whole.stages.push_back(make_stage("s" + std::to_string(s), 1, 1));
    for (int reader = 0; reader < s; ++reader) reuses.push_back({s, reader, "copy", false, 0, 0});
  }
  auto const twice = reuses;
  reuses.insert(reuses.end(), twice.begin(), twice.end());
  auto const machine = ideal_machine(4);
  auto const one = part(whole, 0, 1, Mechanism::stream_order, machine);
  std::vector<PlannedPart> parts(stages, {one, LaunchStart::early});
  parts.front().start = LaunchStart::in_order;
  Recipe recipe;
  recipe.mechanism = Mechanism::pdl;
  std::size_t joined = 0, built = 0;
  auto const both = [&] {
    joined = join(whole, reuses, parts).reuse_edges.size();
    auto const plan = assemble(whole, reuses, machine, recipe);
    ASSERT_TRUE(plan) << to_text(plan.error());
    built = plan->reuse_edges.size();
  };
  EXPECT_LT(support::least_seconds(10, both, 2), 10);
  EXPECT_EQ(joined, static_cast<std::size_t>(pairs));
  EXPECT_EQ(built, static_cast<std::size_t>(pairs));
}

}  // namespace
}  // namespace tessera
