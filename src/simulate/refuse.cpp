// SPDX-License-Identifier: Apache-2.0
// What no clock changes: plans that do not fit their pipeline or the machine.
#include <fmt/format.h>

#include <algorithm>

#include "run_at.hpp"
#include "tessera/plan/lacking.hpp"
#include "tessera/plan/launch_faults.hpp"
#include "tessera/plan/progress.hpp"

namespace tessera::simulation {
namespace {

// More blocks than that are a mistake in the description: the state alone would fill the memory.
constexpr std::int64_t k_most_blocks = 5'000'000;

Diagnostic mismatch(Plan const& plan, std::string what) {
  Diagnostic d;
  d.code = "E0505";
  d.where = plan.pipeline.where;
  d.message = "the plan does not fit its pipeline: " + std::move(what);
  d.suggestion = "load plans with parse_plan(), which refuses such a plan, or let choose() make it";
  return d;
}

Expected<void> refuse_shape(Plan const& plan) {
  auto const& pipeline = plan.pipeline;
  auto const stages = pipeline.stages.size();
  if (stages == 0) return refuse(mismatch(plan, "no stages"));
  if (plan.stages.size() != stages)
    return refuse(mismatch(plan, fmt::format("{} stage plans for {} stages", plan.stages.size(), stages)));
  std::int64_t blocks = 0;
  for (auto const& stage : pipeline.stages) {
    std::int64_t product = std::max(stage.splits, 0);
    for (auto const& dim : stage.grid) {
      if (dim.extent < 1) product = -1;
      if (product > 0)
        product = std::min(product, k_most_blocks + 1) * std::min(dim.extent, k_most_blocks + 1);
    }
    if (product < 1 || stage.grid.empty() || stage.grid.size() > k_max_rank)
      return refuse(mismatch(
          plan, fmt::format("stage {} has an empty grid, or one of too many dimensions", stage.name)));
    blocks = std::min(blocks + product, 2 * k_most_blocks);
  }
  if (blocks > k_most_blocks) {
    Diagnostic d;
    d.code = "E0504";
    d.where = pipeline.where;
    d.message = fmt::format("{} has more than {} blocks: too many to simulate", pipeline.name, k_most_blocks);
    d.suggestion = "larger tiles, or a smaller problem of the same shape";
    return refuse(std::move(d));
  }
  for (std::size_t s = 0; s < stages; ++s) {
    auto const& table = plan.stages[s].order.table;
    if (table.empty()) continue;
    auto const tiles = pipeline.stages[s].tiles();
    if (static_cast<std::int64_t>(table.size()) != tiles ||
        std::any_of(table.begin(), table.end(), [&](std::int32_t t) { return t < 0 || t >= tiles; }))
      return refuse(mismatch(
          plan, fmt::format("the order of {} is not over its {} tiles", pipeline.stages[s].name, tiles)));
  }
  return {};
}

/// Longer than a day is a mistake, and would not fit the clock.
constexpr double k_latest_ns = 86'400e9;

Expected<void> refuse_options(Plan const& plan, SimulateOptions const& options) {
  auto const& later = options.seen_later_ns;
  if (later.empty()) return {};
  auto const refused = [&](std::string what) {
    auto d = mismatch(plan, std::move(what));
    d.suggestion = "give a time of 0 ns or more for each stage, or none at all";
    return refuse(std::move(d));
  };
  if (later.size() != plan.stages.size())
    return refused(
        fmt::format("posts are seen later by {} times for {} stages", later.size(), plan.stages.size()));
  for (auto const ns : later)
    if (!(ns >= 0 && ns <= k_latest_ns)) return refused(fmt::format("posts are seen later by {} ns", ns));
  return {};
}

Expected<void> refuse_semaphores(Plan const& plan) {
  auto const& pipeline = plan.pipeline;
  auto const stages = static_cast<int>(pipeline.stages.size());
  auto const sets = static_cast<int>(plan.semaphores.size());
  for (auto const& set : plan.semaphores) {
    if (set.producer < 0 || set.producer >= stages)
      return refuse(mismatch(plan, "semaphores of an unknown stage"));
    auto const grid = pipeline.stages[static_cast<std::size_t>(set.producer)].tile_grid();
    if (auto const problem = problem_of(set.map, grid); !problem.empty())
      return refuse(mismatch(plan, "a policy cannot be used: " + problem));
    auto const count = set.map.count(pipeline.stages[static_cast<std::size_t>(set.producer)].tile_grid());
    if (set.first < 0 || set.count != count || set.first > 2 * k_most_blocks)
      return refuse(mismatch(plan, fmt::format("{} semaphores where the policy has {}", set.count, count)));
  }
  for (auto const& dependence : pipeline.dependences) {
    if (dependence.consumer < 0 || dependence.consumer >= stages || dependence.producer < 0 ||
        dependence.producer >= stages)
      return refuse(mismatch(plan, "a dependence between unknown stages"));
    auto const rank = pipeline.stages[static_cast<std::size_t>(dependence.producer)].grid.size();
    for (auto const& access : dependence.accesses)
      if (access.ranges.size() != rank) return refuse(mismatch(plan, "a dependence of the wrong rank"));
  }
  for (auto const& planned : plan.dependences)
    if (planned.dependence < 0 || planned.dependence >= static_cast<int>(pipeline.dependences.size()) ||
        planned.semaphore_set >= sets ||
        (planned.semaphore_set >= 0 &&
         plan.semaphores[static_cast<std::size_t>(planned.semaphore_set)].producer !=
             pipeline.dependences[static_cast<std::size_t>(planned.dependence)].producer))
      return refuse(mismatch(plan, "a dependence with the semaphores of another stage"));
  for (auto const& edge : plan.reuse_edges)
    if (edge.writer < 0 || edge.writer >= stages || edge.reader < 0 || edge.reader >= stages ||
        edge.semaphore_set >= sets)
      return refuse(mismatch(plan, "a reuse edge of an unknown stage"));
  return {};
}

Expected<void> refuse_launches(Plan const& plan) {
  auto const faults = launch_faults(plan);
  if (faults.empty()) return {};
  return refuse(mismatch(plan, faults.front().message));
}

Expected<void> refuse_mechanism(Plan const& plan, MachineProfile const& machine) {
  if (auto lacking = lacking_launch(plan, machine)) return refuse(std::move(*lacking));
  return {};
}

Expected<void> refuse_resources(Plan const& plan, MachineProfile const& machine) {
  for (auto const& stage : plan.pipeline.stages) {
    if (occupancy(machine, stage.resources) > 0) continue;
    Diagnostic d;
    d.code = "E0301";
    d.where = stage.where;
    d.message = fmt::format("a block of {} does not fit an SM of {}", stage.name, machine.name);
    d.notes = {
        fmt::format("{} threads, {} registers per thread, {} bytes of shared memory; {} is what runs out",
                    stage.resources.threads, stage.resources.registers_per_thread,
                    stage.resources.shared_bytes, occupancy_limiter(machine, stage.resources))};
    d.suggestion = "a smaller tile, or fewer pipeline stages";
    return refuse(std::move(d));
  }
  return {};
}

Expected<void> refuse_workers(Plan const& plan, MachineProfile const& machine) {
  for (auto const& launch : plan.launches) {
    if (launch.workers == 0) continue;
    auto const most = worker_resources(plan.pipeline, launch);
    int const per_sm = occupancy(machine, most);
    if (per_sm == 0) {
      Diagnostic d;
      d.code = "E0301";
      d.where = plan.pipeline.where;
      d.message =
          fmt::format("a persistent worker that can run every stage does not fit an SM of {}", machine.name);
      d.notes = {fmt::format("{} threads, {} registers per thread, {} bytes of shared memory", most.threads,
                             most.registers_per_thread, most.shared_bytes)};
      d.suggestion = "choose smaller tiles for the largest stage, or separate kernels";
      return refuse(std::move(d));
    }
    auto const room = static_cast<std::int64_t>(per_sm) * machine.sms;
    if (launch.workers > room) {
      Diagnostic d;
      d.code = "E0302";
      d.where = plan.pipeline.where;
      d.message = fmt::format("a persistent launch of {} workers is not resident at once: {} has room for {}",
                              launch.workers, machine.name, room);
      d.notes = {fmt::format("{} per SM on {} SMs", per_sm, machine.sms)};
      d.suggestion = fmt::format("use between 1 and {} workers", room);
      return refuse(std::move(d));
    }
  }
  return {};
}

}  // namespace

Expected<void> refuse_plan(Plan const& plan, MachineProfile const& machine, SimulateOptions const& options) {
  return refuse_shape(plan)
      .and_then([&] { return refuse_options(plan, options); })
      .and_then([&] { return refuse_semaphores(plan); })
      .and_then([&] { return refuse_launches(plan); })
      .and_then([&] { return refuse_mechanism(plan, machine); })
      .and_then([&] { return refuse_resources(plan, machine); })
      .and_then([&] { return refuse_workers(plan, machine); });
}

}  // namespace tessera::simulation
