// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "support/plans.hpp"
#include "tessera/simulate/simulate.hpp"

namespace tessera {
namespace {

/// Two dependent grids in one persistent launch on four workers; whether it gets stuck is up to the tickets.
Plan two_grids(MachineProfile const& machine) {
  Pipeline p;
  p.name = "chain";
  p.stages = {support::make_stage("gemm1", 3, 2), support::make_stage("gemm2", 4, 2)};
  p.stages[1].operands = {{"a", "gemm1", 0, 0}};
  p.dependences = {support::row_dependence(p, 1, 0)};
  return support::make_plan(p, machine, Mechanism::fused, support::Policy::row_sync);
}

TEST(Deadlock, ConsumersFirstHoldAllWorkersAndTheChainSaysSo) {
  auto const machine = support::ideal_machine(4);
  auto plan = two_grids(machine);
  auto& tickets = plan.launches[0].tickets;
  for (int i = 0; i < 4; ++i) tickets.push_back({1, i});
  for (int i = 0; i < 6; ++i) tickets.push_back({0, i});
  for (int i = 4; i < 8; ++i) tickets.push_back({1, i});
  auto const refused = simulate(plan, machine);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(
      to_text(refused.error()),
      "error E0501: chain under fused stops: 14 of 14 blocks are unfinished and nothing can happen any more\n"
      "   gemm2 tile (0, 0) waits for row 0 of gemm1 (semaphore 0): 0 of 3 posted; missing gemm1(0, 0): not "
      "started, its ticket comes later and all 4 workers wait\n"
      "   hint: keep the consumer from taking the SMs first: a wait kernel, PDL, one persistent launch, or "
      "stream order");
}

TEST(Deadlock, ProducersFirstFinish) {
  auto const machine = support::ideal_machine(4);
  EXPECT_TRUE(simulate(two_grids(machine), machine).has_value());
}

TEST(Deadlock, HeldSmsAreCountedByStage) {
  // gemm2's first block waits for a stage whose kernel sits behind gemm2's own blocks: the order of the
  // stages is against their dependences.
  auto const machine = support::ideal_machine(4);
  Pipeline p;
  p.name = "backwards";
  p.stages = {support::make_stage("gemm2", 4, 1), support::make_stage("gemm1", 3, 1)};
  p.stages[0].operands = {{"a", "gemm1", 0, 0}};
  p.dependences = {support::row_dependence(p, 0, 1)};
  auto const plan = support::make_plan(p, machine, Mechanism::wait_kernel, support::Policy::tile_sync,
                                       {false, true, false});
  auto const refused = simulate(plan, machine, {false});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error()[0].code, "E0501");
  EXPECT_THAT(
      refused.error()[0].notes,
      testing::ElementsAre("gemm2 tile (0, 0) waits for tile (0, 0) of gemm1 (semaphore 0): 0 of 1 posted; "
                           "missing gemm1(0, 0): not started, 4 of 4 SMs are held by gemm2"));
}

}  // namespace
}  // namespace tessera
