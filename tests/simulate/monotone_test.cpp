// SPDX-License-Identifier: Apache-2.0
// A better machine is not slower, under every mechanism; and the order in which a plan lists things is
// nothing to the run.
#include <gmock/gmock.h>

#include <algorithm>
#include <functional>

#include "support/plans.hpp"
#include "tessera/measure/machine_json.hpp"
#include "tessera/simulate/simulate.hpp"

namespace tessera {
namespace {

using support::GemmTile;
using support::Switches;

constexpr Mechanism k_mechanisms[] = {Mechanism::stream_order, Mechanism::pdl, Mechanism::wait_kernel,
                                      Mechanism::pdl_tiles, Mechanism::fused};

struct Change {
  char const* what;
  std::function<void(MachineProfile&)> apply;
};

std::int64_t end_of(Plan const& plan, MachineProfile const& machine) {
  auto const t = simulate(plan, machine, {false});
  EXPECT_TRUE(t.has_value());
  return t ? t->end : -1;
}

// Greedy dispatch has legitimate anomalies, so this is a claim about this plan: one block per SM, whole waves
// (2 x 132 blocks, then 4 x 132) and consumers that find their rows complete in order. A block that loads
// faster still takes bandwidth from one on the critical path: up to 0.01 % is allowed for that.
Pipeline whole_waves() {
  GemmTile const tile{128, 128, 64, 3, 1, {256, 168, 163840}};
  return support::make_gemm_pair({1408, 6144, 3072}, tile, tile);
}

TEST(Monotone, NoRateUpAndNoLatencyDownMakesAPlanSlower) {
  std::vector<Change> const changes{{"DRAM rate", [](auto& m) { m.dram_gbps *= 2; }},
                                    {"L2 rate", [](auto& m) { m.l2_gbps *= 2; }},
                                    {"L2 size", [](auto& m) { m.l2_mib *= 4; }},
                                    {"SM load rate", [](auto& m) { m.sm_load_gbps *= 1.3; }},
                                    {"clock", [](auto& m) { m.clock_ghz *= 1.2; }},
                                    {"DRAM latency", [](auto& m) { m.dram_latency_ns = 0; }},
                                    {"launch", [](auto& m) { m.launch_ns = 0; }},
                                    {"gap in a stream", [](auto& m) { m.stream_gap_ns = 0; }},
                                    {"gap of PDL", [](auto& m) { m.pdl_gap_ns = 0; }},
                                    {"grid-wide wait", [](auto& m) { m.pdl_grid_wait_ns = 0; }},
                                    {"second stream", [](auto& m) { m.stream_start_ns = 0; }},
                                    {"prologue", [](auto& m) { m.block_start_ns = 0; }},
                                    {"ticket", [](auto& m) { m.ticket_ns = 0; }},
                                    {"post", [](auto& m) { m.post_ns = m.store_post_ns = 0; }},
                                    {"wait", [](auto& m) { m.wait_ns = 0; }},
                                    {"trigger", [](auto& m) { m.trigger_ns = 0; }}};
  auto base = machine("h200").value();
  // At one clock: with a limit, a rate that rises draws power that others lose.
  base.power_limit_w = 0;
  for (auto const mechanism : k_mechanisms)
    for (auto const policy : {support::Policy::tile_sync, support::Policy::row_sync})
      for (bool const reorder : {false, true}) {
        auto const plan = support::make_plan(whole_waves(), base, mechanism, policy, {reorder});
        auto const before = end_of(plan, base);
        for (auto const& change : changes) {
          auto better = base;
          change.apply(better);
          EXPECT_LE(static_cast<double>(end_of(plan, better)), 1.0001 * static_cast<double>(before))
              << to_text(mechanism) << ", " << support::name_of(policy) << (reorder ? " +R, " : ", ")
              << change.what;
        }
      }
}

TEST(Monotone, EachCostOfSynchronizationIsPaidByWhoUsesIt) {
  auto const base = machine("h200").value();
  auto const delta = [&](Mechanism mechanism, std::function<void(MachineProfile&)> const& worsen) {
    auto const plan = support::make_plan(whole_waves(), base, mechanism, support::Policy::row_sync);
    auto worse = base;
    worsen(worse);
    return end_of(plan, worse) - end_of(plan, base);
  };
  auto const post = [](MachineProfile& m) { m.post_ns += 1e5; };
  auto const ticket = [](MachineProfile& m) { m.ticket_ns += 1e5; };
  for (auto const mechanism : k_mechanisms) {
    bool const semaphores = uses_semaphores(mechanism);
    EXPECT_EQ(delta(mechanism, post) > 0, semaphores) << to_text(mechanism);
    EXPECT_EQ(delta(mechanism, ticket) > 0, semaphores) << to_text(mechanism);
  }
}

// Two producers, one consumer that reads a row of each.
Pipeline diamond() {
  GemmTile const tile{128, 128, 64, 3, 1, {256, 168, 98304}};
  auto p = support::make_gemm_pair({1024, 4096, 2048}, tile, tile);
  p.stages.insert(p.stages.begin() + 1, support::make_gemm("gate", {1024, 2048, 4096}, tile, "x", "w_gate"));
  p.stages.back().operands.push_back({"c", "gate", 128 * 2048 * 2, 1024 * 2048 * 2});
  p.dependences = {support::row_dependence(p, 2, 0, "a"), support::row_dependence(p, 2, 1, "c")};
  return p;
}

TEST(Determinism, TheOrderOfDependencesAndSemaphoresIsNothingToTheRun) {
  auto const machine = tessera::machine("h200").value();
  for (auto const mechanism : k_mechanisms)
    for (auto const policy : {support::Policy::tile_sync, support::Policy::row_sync}) {
      auto const plan = support::make_plan(diamond(), machine, mechanism, policy);
      auto const expected = simulate(plan, machine).value();
      auto other = plan;
      std::reverse(other.dependences.begin(), other.dependences.end());
      EXPECT_EQ(simulate(other, machine).value(), expected) << to_text(mechanism);
      if (!uses_semaphores(mechanism)) continue;
      std::reverse(other.semaphores.begin(), other.semaphores.end());
      std::int64_t first = 0;
      for (auto& set : other.semaphores) {
        set.first = first;
        first += set.count;
      }
      auto const sets = static_cast<int>(other.semaphores.size());
      for (auto& dependence : other.dependences)
        dependence.semaphore_set = sets - 1 - dependence.semaphore_set;
      EXPECT_EQ(simulate(other, machine).value(), expected) << to_text(mechanism);
    }
}

}  // namespace
}  // namespace tessera
