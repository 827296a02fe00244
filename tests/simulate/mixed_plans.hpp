// SPDX-License-Identifier: Apache-2.0
// Small plans that mix mechanisms, and a machine on which times can be added up by hand.
#pragma once

#include <gmock/gmock.h>

#include "support/plans.hpp"
#include "tessera/measure/machine_json.hpp"
#include "tessera/simulate/simulate.hpp"

namespace tessera::mixed {

using support::ideal_machine;
using support::make_stage;

inline constexpr auto k_in_order = LaunchStart::in_order;
inline constexpr auto k_early = LaunchStart::early;
inline constexpr auto k_beside = LaunchStart::beside;

/// One block per SM; a round number of nanoseconds for everything but memory.
inline MachineProfile round_machine(int sms) {
  auto machine = ideal_machine(sms);
  machine.launch_ns = 3000;
  machine.stream_gap_ns = 700;
  machine.stream_start_ns = 900;
  machine.pdl_gap_ns = 130;
  machine.trigger_ns = 70;
  machine.pdl_grid_wait_ns = 450;
  machine.block_start_ns = 210;
  machine.ticket_ns = 50;
  machine.post_ns = 300;
  machine.wait_ns = 200;
  return machine;
}

/// A row of blocks for each stage; no dependences, one launch in order for each.
inline Plan row_of_stages(std::vector<Stage> stages, MachineProfile const& machine) {
  Pipeline p;
  p.name = "mixed";
  p.stages = std::move(stages);
  return support::make_plan(p, machine, Mechanism::stream_order);
}

/// consumer(x) reads producer(x), or all of it if their grids differ; with a semaphore for each tile if
/// `semaphores`.
inline void add_dependence(Plan& plan, int consumer, int producer, bool semaphores,
                           std::string operand = "a") {
  auto& p = plan.pipeline;
  auto& reader = p.stages[static_cast<std::size_t>(consumer)];
  auto const& read = p.stages[static_cast<std::size_t>(producer)];
  reader.operands.push_back({operand, read.name, 0, 0});
  p.dependences.push_back(reader.tiles() == read.tiles()
                              ? support::tile_dependence(consumer, producer, operand)
                              : support::row_dependence(p, consumer, producer, operand));
  int set = -1;
  if (semaphores) {
    set = static_cast<int>(plan.semaphores.size());
    std::int64_t const first = set == 0 ? 0 : plan.semaphores.back().first + plan.semaphores.back().count;
    plan.semaphores.push_back(
        {producer, support::map_of(support::Policy::tile_sync), "TileSync", first, read.tiles()});
  }
  plan.dependences.push_back({static_cast<int>(p.dependences.size()) - 1, set});
}

inline Timeline run(Plan const& plan, MachineProfile const& machine) {
  auto const timeline = simulate(plan, machine);
  EXPECT_TRUE(timeline.has_value()) << to_text(timeline.error());
  return timeline.value_or(Timeline{});
}

// In nanoseconds.
inline std::int64_t first_start(Timeline const& t, std::size_t stage) {
  return t.stages.at(stage).first_start / 1000;
}
inline std::int64_t last_end(Timeline const& t, std::size_t stage) {
  return t.stages.at(stage).last_end / 1000;
}

/// a in order > b early, waiting for the grid | c and d by workers.
inline Plan early_then_workers(MachineProfile const& machine) {
  auto plan = row_of_stages(
      {make_stage("a", 3, 1, 2), make_stage("b", 2, 1), make_stage("c", 4, 1), make_stage("d", 4, 1)},
      machine);
  plan.launches = {
      {0, 1, k_in_order, false, 0, {}}, {1, 1, k_early, false, 0, {}}, {2, 2, k_in_order, false, 4, {}}};
  add_dependence(plan, 1, 0, false);
  add_dependence(plan, 2, 1, false);
  add_dependence(plan, 3, 2, true);
  return plan;
}

/// a in order > b and c by workers | d in order. b reads nothing, c reads b and perhaps a.
inline Plan workers_in_a_chain(MachineProfile const& machine, bool reads_a) {
  auto plan = row_of_stages(
      {make_stage("a", 2, 1, 5), make_stage("b", 2, 1), make_stage("c", 2, 1), make_stage("d", 1, 1)},
      machine);
  plan.launches = {
      {0, 1, k_in_order, false, 0, {}}, {1, 2, k_early, false, 2, {}}, {3, 1, k_in_order, false, 0, {}}};
  add_dependence(plan, 2, 1, true);
  if (reads_a) add_dependence(plan, 2, 0, false, "b");
  add_dependence(plan, 3, 2, false);
  return plan;
}

}  // namespace tessera::mixed
