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

}  // namespace

Model::Model(Plan const& plan, MachineProfile const& machine, LaunchGroup const& group, bool kinds_by_posts)
    : sm(empty_sm(machine)), sms(machine.sms) {
  for (int l = group.first; l < group.end; ++l) {
    add_launch(plan, machine, group, l);
    if (plan.launches[at(l)].start == LaunchStart::beside) in_order = machine.dispatches_in_launch_order;
  }
  if (kernels.size() == 1 && kernels[0].has_workers) {
    // One big SM with a slot for each worker.
    starts_placed = true;
    kernels[0].use = {1, 0, 0, 0};
    sm = {kernels[0].blocks, 0, 0, 0};
    sms = 1;
  }
  // SMs beyond those that blocks could each have for themselves stay empty.
  std::int64_t blocks = 0;
  for (auto const& kernel : kernels) blocks += kernel.blocks;
  sms = static_cast<int>(std::min<std::int64_t>(sms, std::max<std::int64_t>(blocks, 1)));
  count_posts(plan, group);
  find_kinds(kinds_by_posts);
}

void Model::add_launch(Plan const& plan, MachineProfile const& machine, LaunchGroup const& group, int index) {
  auto const& launch = plan.launches[at(index)];
  auto const& stage = plan.pipeline.stages[at(launch.first)];
  if (launch.wait_kernel) {
    KernelModel wait;
    wait.stage = stage.name;
    wait.is_wait = true;
    wait.producer = static_cast<int>(kernels.size()) - 1;
    wait.blocks = wait.count = 1;
    wait.first = static_cast<int>(units.size());
    wait.use = room_of(machine, wait_kernel_resources());
    units.push_back({static_cast<int>(kernels.size()), "the wait kernel of " + stage.name, {}, {}, false, 0});
    kernels.push_back(std::move(wait));
  }
  KernelModel kernel;
  kernel.stage = stage.name;
  kernel.is_early = launch.start == LaunchStart::early && index > group.first;
  if (kernel.is_early) kernel.gate = Gate::all_started;
  if (launch.wait_kernel) kernel.gate = Gate::wait_kernel;
  kernel.first = static_cast<int>(units.size());
  if (launch.workers > 0) {
    add_workers(plan, machine, launch, kernel);
  } else {
    if (occupancy(machine, stage.resources) < 1 && refusal.empty())
      refusal = stage.name + " does not fit on an SM";
    kernel.blocks = stage.blocks();
    kernel.use = room_of(machine, stage.resources);
    for (std::int64_t block = 0; block < stage.blocks(); ++block) add_unit(plan, launch.first, block);
  }
  kernel.count = static_cast<int>(units.size()) - kernel.first;
  if (kernel.has_workers || kernel.is_early) add_idle(plan, launch, kernel);
  kernels.push_back(std::move(kernel));
}

void Model::add_workers(Plan const& plan, MachineProfile const& machine, Launch const& launch,
                        KernelModel& kernel) {
  auto const resources = worker_resources(plan.pipeline, launch);
  auto const capacity = std::int64_t{occupancy(machine, resources)} * machine.sms;
  if (launch.workers > capacity && refusal.empty())
    refusal = fmt::format("{} workers, of which {} can be resident at once", launch.workers, capacity);
  kernel.has_workers = true;
  kernel.blocks = launch.workers;
  kernel.use = room_of(machine, resources);
  std::int64_t blocks = 0;
  for (int stage = launch.first; stage < launch.end(); ++stage) {
    auto const of_stage = plan.pipeline.stages[at(stage)].blocks();
    blocks += of_stage;
    if (!launch.tickets.empty()) continue;
    for (std::int64_t block = 0; block < of_stage; ++block) add_unit(plan, stage, block);
  }
  for (auto const& ticket : launch.tickets) add_unit(plan, ticket.stage, ticket.position);
  auto const tickets = static_cast<std::int64_t>(units.size()) - kernel.first;
  if (blocks != tickets) refusal = fmt::format("{} tickets for {} blocks", tickets, blocks);
}

void Model::add_unit(Plan const& plan, int stage, std::int64_t block) {
  auto const& of = plan.pipeline.stages[at(stage)];
  auto const work = block_work(of, plan.stages[at(stage)], block);
  Unit unit;
  unit.kernel = static_cast<int>(kernels.size());
  unit.name = tile_name(of, work.tile);
  if (of.splits > 1) unit.name += fmt::format(" split {}", work.split);
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
  unit.waits_for_kernels = duties_of(plan, stage).waits_for_grid;
  unit.posts = posted_by(plan, stage, work.tile);
  units.push_back(std::move(unit));
}

void Model::add_idle(Plan const& plan, Launch const& launch, KernelModel& kernel) {
  auto const& first = plan.pipeline.stages[at(launch.first)].name;
  auto const name = kernel.has_workers ? "a worker of " + first : "a block of " + first;
  kernel.idle = static_cast<int>(units.size());
  units.push_back({static_cast<int>(kernels.size()), name, {}, {}, kernel.is_early, 0});
}

void Model::count_posts(Plan const& plan, LaunchGroup const& group) {
  auto const grow = [&](std::int64_t semaphore) {
    if (semaphore >= static_cast<std::int64_t>(counts.size())) counts.resize(at(semaphore) + 1, 0);
  };
  for (auto const& set : plan.semaphores) {
    if (set.count == 0) continue;
    grow(set.first + set.count - 1);
    if (launch_of(plan, set.producer) >= group.first) continue;
    auto const& producer = plan.pipeline.stages[at(set.producer)];
    for (std::int64_t i = 0; i < set.count; ++i)
      counts[at(set.first + i)] = set.map.tiles_of(producer.tile_grid(), i) * producer.splits;
  }
  for (auto const& unit : units) {
    for (auto const& awaited : unit.awaited) grow(awaited.semaphore);
    for (auto const semaphore : unit.posts) grow(semaphore);
  }
}

void Model::find_kinds(bool by_posts) {
  using Pairs = std::vector<std::pair<std::int64_t, std::int64_t>>;
  std::map<std::tuple<int, bool, bool, Pairs, std::vector<std::int64_t>>, int> known;
  for (int u = 0; u < static_cast<int>(units.size()); ++u) {
    auto& unit = units[at(u)];
    bool const idle = kernels[at(unit.kernel)].idle == u;
    Pairs pairs;
    for (auto const& awaited : unit.awaited) pairs.push_back({awaited.semaphore, awaited.value});
    std::sort(pairs.begin(), pairs.end());
    auto const posts = by_posts ? unit.posts : std::vector<std::int64_t>{};
    auto const key = std::tuple(unit.kernel, idle, unit.waits_for_kernels, pairs, posts);
    unit.kind = known.try_emplace(key, kinds).first->second;
    kinds = std::max(kinds, unit.kind + 1);
  }
}

}  // namespace tessera::exploration
