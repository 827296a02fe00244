// SPDX-License-Identifier: Apache-2.0
#include "tessera/simulate/simulate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "deadlock.hpp"
#include "gpu.hpp"
#include "power.hpp"
#include "run_at.hpp"
#include "tessera/plan/progress.hpp"

namespace tessera {
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

Expected<void> refuse_fused(Plan const& plan, MachineProfile const& machine) {
  if (plan.mechanism != Mechanism::fused) return {};
  auto const most = fused_resources(plan.pipeline);
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
  if (plan.workers < 1 || plan.workers > room) {
    Diagnostic d;
    d.code = "E0302";
    d.where = plan.pipeline.where;
    d.message = fmt::format("a persistent launch of {} workers is not resident at once: {} has room for {}",
                            plan.workers, machine.name, room);
    d.notes = {fmt::format("{} per SM on {} SMs", per_sm, machine.sms)};
    d.suggestion = fmt::format("use between 1 and {} workers", room);
    return refuse(std::move(d));
  }
  for (auto const& ticket : plan.tickets)
    if (ticket.stage < 0 || static_cast<std::size_t>(ticket.stage) >= plan.stages.size() ||
        ticket.position < 0 ||
        ticket.position >= plan.pipeline.stages[static_cast<std::size_t>(ticket.stage)].blocks())
      return refuse(
          mismatch(plan, fmt::format("ticket for position {} of stage {}", ticket.position, ticket.stage)));
  return {};
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
      if (dim.extent < 1 || dim.extent > k_most_blocks) product = -1;
      if (product > 0) product = std::min(product, k_most_blocks + 1) * dim.extent;
    }
    if (product < 1 || stage.grid.empty() || stage.grid.size() > k_max_rank)
      return refuse(mismatch(plan, fmt::format("stage {} has an empty or oversized grid", stage.name)));
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

Expected<void> refuse_semaphores(Plan const& plan) {
  auto const& pipeline = plan.pipeline;
  auto const stages = static_cast<int>(pipeline.stages.size());
  auto const sets = static_cast<int>(plan.semaphores.size());
  for (auto const& set : plan.semaphores) {
    if (set.producer < 0 || set.producer >= stages)
      return refuse(mismatch(plan, "semaphores of an unknown stage"));
    for (auto const& dimension : set.map.dimension)
      if (dimension.width < 1) return refuse(mismatch(plan, "a policy with a width below 1"));
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
    if (edge.writer < 0 || edge.writer >= stages || edge.semaphore_set >= sets)
      return refuse(mismatch(plan, "a reuse edge of an unknown stage"));
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

/// The clock that the power limit allows for a run like this one, which went at `clock`.
double clock_of_run(Plan const& plan, MachineProfile const& machine, Timeline const& timeline, double clock) {
  if (machine.power_limit_w <= 0) return clock;
  auto const load = simulation::load_of(plan, timeline, clock);
  return simulation::settled_clock(machine, load.work, load.steady_ns, load.cycles);
}

}  // namespace

namespace simulation {

Expected<void> refuse_plan(Plan const& plan, MachineProfile const& machine) {
  return refuse_shape(plan)
      .and_then([&] { return refuse_semaphores(plan); })
      .and_then([&] { return refuse_resources(plan, machine); })
      .and_then([&] { return refuse_fused(plan, machine); });
}

Expected<Timeline> run_at(Plan const& plan, MachineProfile const& machine, double clock_ghz,
                          SimulateOptions options) {
  auto const clocked = at_clock(machine, clock_ghz);
  Gpu gpu(plan, clocked, options.record_tiles);
  if (gpu.run()) return gpu.timeline();
  if (options.record_tiles) return refuse(explain_deadlock(gpu));
  // The explanation needs to know which tiles were finished.
  Gpu again(plan, clocked, true);
  again.run();
  return refuse(explain_deadlock(again));
}

}  // namespace simulation

Expected<Timeline> simulate(Plan const& plan, MachineProfile const& machine, SimulateOptions options) {
  if (auto fine = simulation::refuse_plan(plan, machine); !fine) return tl::make_unexpected(fine.error());
  auto clock = machine.power_limit_w > 0 ? simulation::first_clock(plan, machine) : machine.clock_ghz;
  for (int attempt = 0;; ++attempt) {
    auto timeline = simulation::run_at(plan, machine, clock, options);
    if (!timeline) return timeline;
    auto const settled = clock_of_run(plan, machine, *timeline, clock);
    if (std::abs(settled - clock) <= simulation::k_clock_tolerance * clock ||
        attempt == simulation::k_most_clocks)
      return timeline;
    clock = settled;
  }
}

}  // namespace tessera
