// SPDX-License-Identifier: Apache-2.0
#include "explore_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "tessera/plan/progress.hpp"

namespace tessera::exploration {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

Gate gate_of(Mechanism mechanism) {
  switch (mechanism) {
    case Mechanism::pdl:
    case Mechanism::pdl_tiles: return Gate::all_started;
    case Mechanism::wait_kernel: return Gate::wait_kernel;
    default: return Gate::all_complete;
  }
}

}  // namespace

Model::Model(Plan const& plan, MachineProfile const& machine, bool kinds_by_posts)
    : gate(gate_of(plan.mechanism)),
      in_order(plan.mechanism != Mechanism::wait_kernel || machine.dispatches_in_launch_order),
      is_fused(plan.mechanism == Mechanism::fused),
      sm(empty_sm(machine)),
      sms(machine.sms) {
  for (auto const& set : plan.semaphores) semaphores = std::max(semaphores, set.first + set.count);
  if (is_fused) {
    add_persistent_launch(plan, machine);
  } else {
    for (int s = 0; s < static_cast<int>(plan.pipeline.stages.size()); ++s) {
      wait_kernel_of.push_back(-1);
      if (plan.mechanism == Mechanism::wait_kernel && s > 0 && plan.stages[at(s)].wait_kernel) {
        wait_kernel_of.back() = static_cast<int>(kernels.size());
        add_kernel(plan, s, true, room_of(machine, wait_kernel_resources()));
      }
      kernel_of.push_back(static_cast<int>(kernels.size()));
      auto const& resources = plan.pipeline.stages[at(s)].resources;
      if (occupancy(machine, resources) < 1 && refusal.empty())
        refusal = plan.pipeline.stages[at(s)].name + " does not fit on an SM";
      add_kernel(plan, s, false, room_of(machine, resources));
    }
  }
  for (auto const& unit : units) {
    for (auto const& awaited : unit.awaited) semaphores = std::max(semaphores, awaited.semaphore + 1);
    for (auto const semaphore : unit.posts) semaphores = std::max(semaphores, semaphore + 1);
  }
  find_kinds(kinds_by_posts);
}

void Model::add_unit(Plan const& plan, int kernel, int stage, std::int64_t block) {
  auto const& of = plan.pipeline.stages[at(stage)];
  auto const work = block_work(of, plan.stages[at(stage)], block);
  Unit unit;
  unit.kernel = kernel;
  unit.name = tile_name(of, work.tile);
  if (of.splits > 1) unit.name += fmt::format(" split {}", work.split);
  if (uses_semaphores(plan.mechanism)) {
    for (auto const& planned : plan.dependences) {
      auto const index = planned.dependence;
      if (planned.semaphore_set < 0 || plan.pipeline.dependences[at(index)].consumer != stage) continue;
      auto const awaited = awaited_by(plan, index, work.tile);
      unit.awaited.insert(unit.awaited.end(), awaited.begin(), awaited.end());
    }
    for (auto const& edge : plan.reuse_edges) {
      if (edge.writer != stage || edge.semaphore_set < 0) continue;
      auto const& set = plan.semaphores[at(edge.semaphore_set)];
      auto const& reader = plan.pipeline.stages[at(set.producer)];
      for (std::int64_t i = 0; i < set.count; ++i)
        unit.awaited.push_back({set.first + i, set.map.tiles_of(reader.tile_grid(), i) * reader.splits});
    }
    unit.posts = posted_by(plan, stage, work.tile);
  }
  if (gate == Gate::all_started) unit.complete_before = stage;
  units.push_back(std::move(unit));
}

void Model::add_kernel(Plan const& plan, int stage, bool is_wait, SmRoom const& use) {
  auto const kernel = static_cast<int>(kernels.size());
  auto const first = static_cast<int>(units.size());
  auto const& of = plan.pipeline.stages[at(stage)];
  if (is_wait) {
    units.push_back({kernel, "the wait kernel of " + of.name, {}, {}, 0, 0});
  } else {
    for (std::int64_t block = 0; block < of.blocks(); ++block) add_unit(plan, kernel, stage, block);
  }
  kernels.push_back({stage, is_wait, first, static_cast<int>(units.size()) - first, use});
}

void Model::add_persistent_launch(Plan const& plan, MachineProfile const& machine) {
  auto const capacity = std::int64_t{occupancy(machine, fused_resources(plan.pipeline))} * machine.sms;
  if (plan.workers < 1 || plan.workers > capacity)
    refusal = fmt::format("{} workers, of which {} can be resident at once", plan.workers, capacity);
  // A worker is a slot of one big SM, and a ticket a block on it.
  sm = {plan.workers, 0, 0, 0};
  sms = 1;
  kernel_of.assign(plan.pipeline.stages.size(), 0);
  wait_kernel_of.assign(plan.pipeline.stages.size(), -1);
  if (plan.tickets.empty()) {
    for (int s = 0; s < static_cast<int>(plan.pipeline.stages.size()); ++s)
      for (std::int64_t block = 0; block < plan.pipeline.stages[at(s)].blocks(); ++block)
        add_unit(plan, 0, s, block);
  } else {
    for (auto const& ticket : plan.tickets) add_unit(plan, 0, ticket.stage, ticket.position);
  }
  std::int64_t blocks = 0;
  for (auto const& stage : plan.pipeline.stages) blocks += stage.blocks();
  if (blocks != static_cast<std::int64_t>(units.size()))
    refusal = fmt::format("{} tickets for {} blocks", units.size(), blocks);
  kernels.push_back({0, false, 0, static_cast<int>(units.size()), {1, 0, 0, 0}});
}

void Model::find_kinds(bool by_posts) {
  using Pairs = std::vector<std::pair<std::int64_t, std::int64_t>>;
  std::map<std::tuple<int, Pairs, std::vector<std::int64_t>>, int> known;
  for (auto& unit : units) {
    Pairs pairs;
    for (auto const& awaited : unit.awaited) pairs.push_back({awaited.semaphore, awaited.value});
    std::sort(pairs.begin(), pairs.end());
    auto const posts = by_posts ? unit.posts : std::vector<std::int64_t>{};
    unit.kind = known.try_emplace({unit.kernel, pairs, posts}, kinds).first->second;
    kinds = std::max(kinds, unit.kind + 1);
  }
}

}  // namespace tessera::exploration
