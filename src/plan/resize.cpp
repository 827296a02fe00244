// SPDX-License-Identifier: Apache-2.0
#include "tessera/plan/resize.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "plan/assemble.hpp"
#include "tessera/check/check.hpp"
#include "tessera/plan/launch_faults.hpp"
#include "tessera/plan/machine_values.hpp"
#include "tessera/plan/orders.hpp"
#include "tessera/plan/policies.hpp"
#include "tessera/plan/progress.hpp"
#include "tessera/plan/waves.hpp"

namespace tessera {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

tl::unexpected<Diagnostics> refused(Plan const& tuned, OperatorGraph const& graph, std::string const& why) {
  return refuse({"E0306",
                 Severity::error,
                 graph.where,
                 fmt::format("the plan of {} cannot be made for the sizes of {}: {}", tuned.pipeline.name,
                             graph.name, why),
                 {},
                 "plan these sizes themselves: tessera plan"});
}

/// What of a plan belongs to its own grid, as a clause; empty: nothing does.
std::string bound_to_its_grid(Plan const& tuned) {
  for (std::size_t s = 0; s < tuned.stages.size(); ++s)
    if (auto const& order = tuned.stages[s].order; !order.table.empty() && !order.bands)
      return fmt::format("the order \"{}\" of {} is a table of its tiles", order.name,
                         tuned.pipeline.stages[s].name);
  for (auto const& launch : tuned.launches)
    if (!launch.tickets.empty())
      return fmt::format("the workers of {} draw a list of its blocks",
                         tuned.pipeline.stages[at(launch.first)].name);
  for (auto const& set : tuned.semaphores)
    if (set.map.is_table())
      return fmt::format("a semaphore set of {} is a table of its tiles",
                         tuned.pipeline.stages[at(set.producer)].name);
  return "";
}

bool same_dependences(Pipeline const& a, Pipeline const& b) {
  return std::equal(a.dependences.begin(), a.dependences.end(), b.dependences.begin(), b.dependences.end(),
                    [](Dependence const& one, Dependence const& other) {
                      return one.consumer == other.consumer && one.producer == other.producer &&
                             one.operand == other.operand;
                    });
}

bool same_stages(Pipeline const& a, Pipeline const& b) {
  return std::equal(a.stages.begin(), a.stages.end(), b.stages.begin(), b.stages.end(),
                    [](Stage one, Stage const& other) {
                      one.where = other.where;
                      return one == other;
                    });
}

/// The tuned plan's semaphores on the plan's grids.
void lay_out_semaphores(Plan& plan) {
  std::int64_t next = 0;
  for (std::size_t i = 0; i < plan.semaphores.size(); ++i) {
    auto& set = plan.semaphores[i];
    auto const grid = plan.pipeline.stages[at(set.producer)].tile_grid();
    bool const wide = [&] {
      for (int d = 0; d < k_max_rank; ++d)
        if (set.map.dimension[d].width > grid.extent[d]) return true;
      return false;
    }();
    if (wide) set.map = normalized(set.map, grid);
    // A reader of one tile had one semaphore, whatever its map; of several it must be said.
    bool const whole =
        std::any_of(plan.reuse_edges.begin(), plan.reuse_edges.end(),
                    [&](ReuseEdge const& edge) { return edge.semaphore_set == static_cast<int>(i); });
    if (whole && set.map.count(grid) != 1) {
      set.map = whole_grid(grid);
      set.policy = "GridSync";
    }
    set.first = next;
    set.count = set.map.count(grid);
    next += set.count;
  }
}

void fit_launches(Plan& plan, Plan const& tuned, MachineProfile const& machine) {
  for (auto& launch : plan.launches) {
    std::int64_t blocks = 0, were = 0;
    for (int s = launch.first; s < launch.end(); ++s) {
      blocks += plan.pipeline.stages[at(s)].blocks();
      were += tuned.pipeline.stages[at(s)].blocks();
      plan.stages[at(s)].occupancy = occupancy(machine, plan.pipeline.stages[at(s)].resources);
    }
    if (launch.workers == 0) continue;
    int const resident = occupancy(machine, worker_resources(plan.pipeline, launch));
    auto const most = std::max(std::int64_t{launch.workers}, std::int64_t{resident} * machine.sms);
    launch.workers = static_cast<int>(std::min(blocks, launch.workers == were ? most : launch.workers));
    for (int s = launch.first; s < launch.end(); ++s) plan.stages[at(s)].occupancy = resident;
  }
}

void fit_stages(Plan& plan, MachineProfile const& machine) {
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    auto& planned = plan.stages[s];
    auto const& stage = plan.pipeline.stages[s];
    planned.waves =
        waves(stage.blocks(), std::max<std::int64_t>(1, std::int64_t{planned.occupancy} * machine.sms));
    if (planned.persistent_blocks > stage.blocks()) planned.persistent_blocks = 0;
    planned.plain_store = planned.plain_store && has_single_posts(plan, static_cast<int>(s));
    if (!planned.order.bands) continue;
    bool const listed = !planned.order.table.empty();
    planned.order = make_band_order(stage, *planned.order.bands);
    bool const worker = plan.launches[at(launch_of(plan, static_cast<int>(s)))].workers > 0;
    planned.custom_order = worker || !planned.order.table.empty() || (!listed && planned.custom_order);
  }
}

void forget_price(Plan& plan) {
  plan.predicted_us = plan.stream_order_us = 0;
  plan.bound_by.clear();
  plan.why.clear();
  plan.alternatives.clear();
}

/// A buffer that an early launch would overwrite at these sizes, though it could not at the tuned ones.
bool leaves_reuse_open(Plan const& plan, std::vector<BufferReuse> const& reuses) {
  return std::any_of(reuses.begin(), reuses.end(), [&](BufferReuse const& reuse) {
    return !reuse.covered && kept_by(plan, reuse.writer, reuse.reader, -1) != KeptBy::completion &&
           std::none_of(plan.reuse_edges.begin(), plan.reuse_edges.end(), [&](ReuseEdge const& edge) {
             return edge.writer == reuse.writer && edge.reader == reuse.reader;
           });
  });
}

}  // namespace

Expected<Plan> resize(Plan const& tuned, OperatorGraph const& graph, Registry const& kernels,
                      MachineProfile const& machine) {
  auto const& stages = tuned.pipeline.stages;
  if (stages.size() != graph.operators.size())
    return refused(
        tuned, graph,
        fmt::format("it has {} stages, and there are {} operators", stages.size(), graph.operators.size()));
  if (auto const why = bound_to_its_grid(tuned); !why.empty()) return refused(tuned, graph, why);
  std::vector<TileChoice> choices;
  for (auto const& stage : stages) {
    auto const* kernel = kernels.find(stage.kernel);
    if (kernel == nullptr)
      return refused(tuned, graph,
                     fmt::format("kernel \"{}\" of {} is not registered", stage.kernel, stage.name));
    choices.push_back({*kernel, stage.splits});
  }
  auto pipeline = tile(graph, choices);
  if (!pipeline) return tl::make_unexpected(std::move(pipeline).error());
  if (!same_dependences(*pipeline, tuned.pipeline))
    return refused(tuned, graph, "its operators read each other in another way");
  for (std::size_t s = 0; s < stages.size(); ++s)
    if (pipeline->stages[s].grid.size() != stages[s].grid.size())
      return refused(tuned, graph,
                     fmt::format("the grid of {} has {} dimensions, not {}", stages[s].name,
                                 pipeline->stages[s].grid.size(), stages[s].grid.size()));
  auto const checked = check(*pipeline);
  if (!checked) return tl::make_unexpected(checked.error());

  auto plan = tuned;
  plan.pipeline = std::move(*pipeline);
  plan.machine = machine.name;
  plan.machine_values = planning_values(machine, plan.pipeline);
  if (!same_stages(plan.pipeline, tuned.pipeline)) forget_price(plan);
  for (auto& edge : plan.reuse_edges)  // what a stage overwrites is its output, by its name here
    edge.buffer = plan.pipeline.stages[at(edge.writer)].output;
  lay_out_semaphores(plan);
  fit_launches(plan, tuned, machine);
  fit_stages(plan, machine);
  if (auto const faults = launch_faults(plan); !faults.empty())
    return refused(tuned, graph, faults.front().message);
  if (leaves_reuse_open(plan, checked->reuses()))
    return refused(tuned, graph, "at these sizes a buffer must also be kept from being overwritten early");
  auto proof = prove_progress(plan, machine);
  if (!proof) return tl::make_unexpected(std::move(proof).error());
  plan.proof = std::move(*proof);
  return plan;
}

}  // namespace tessera
