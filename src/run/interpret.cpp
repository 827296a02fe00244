// SPDX-License-Identifier: Apache-2.0
#include "tessera/run/interpret.hpp"

#include <fmt/format.h>

#include "run/interpreter.hpp"
#include "tessera/plan/launch_faults.hpp"

namespace tessera {
namespace {

Diagnostic unusable(Plan const& plan, std::string message) {
  return {"E0503",
          Severity::error,
          plan.pipeline.where,
          std::move(message),
          {},
          "give one function per stage and at least one worker; take plans from choose() or parse_plan()"};
}

/// Indices and lengths that the interpreter relies on.
bool is_sound(Plan const& plan) {
  auto const stages = static_cast<int>(plan.pipeline.stages.size());
  auto const sets = static_cast<int>(plan.semaphores.size());
  if (stages == 0 || plan.stages.size() != plan.pipeline.stages.size() ||
      plan.dependences.size() != plan.pipeline.dependences.size())
    return false;
  for (int s = 0; s < stages; ++s) {
    auto const& stage = plan.pipeline.stages[static_cast<std::size_t>(s)];
    if (stage.grid.empty() || stage.grid.size() > k_max_rank || stage.splits < 1) return false;
    std::int64_t blocks = stage.splits;
    for (auto const& dim : stage.grid) {
      if (dim.extent < 1 || dim.extent > INT32_MAX / blocks) return false;
      blocks *= dim.extent;
    }
    auto const& table = plan.stages[static_cast<std::size_t>(s)].order.table;
    if (!table.empty() && static_cast<std::int64_t>(table.size()) != stage.tiles()) return false;
    for (auto const tile : table)
      if (tile < 0 || tile >= stage.tiles()) return false;
  }
  for (auto const& set : plan.semaphores) {
    if (set.producer < 0 || set.producer >= stages || set.first < 0) return false;
    auto const grid = plan.pipeline.stages[static_cast<std::size_t>(set.producer)].tile_grid();
    if (!problem_of(set.map, grid).empty() || set.count != set.map.count(grid)) return false;
  }
  for (std::size_t d = 0; d < plan.dependences.size(); ++d) {
    auto const& dependence = plan.pipeline.dependences[d];
    if (dependence.consumer < 0 || dependence.consumer >= stages || dependence.producer < 0 ||
        dependence.producer >= stages || plan.dependences[d].semaphore_set >= sets)
      return false;
  }
  for (auto const& edge : plan.reuse_edges)
    if (edge.writer < 0 || edge.writer >= stages || edge.reader < 0 || edge.reader >= stages ||
        edge.semaphore_set >= sets)
      return false;
  return launch_faults(plan).empty();
}

}  // namespace

Expected<void> interpret(Plan const& plan, std::vector<TileFunction> const& functions,
                         InterpretOptions const& options) {
  if (!is_sound(plan)) return refuse(unusable(plan, "the plan's parts contradict each other"));
  if (functions.size() != plan.stages.size())
    return refuse(unusable(plan, fmt::format("the plan has {} stages, but {} functions were given",
                                             plan.stages.size(), functions.size())));
  for (std::size_t s = 0; s < functions.size(); ++s)
    if (!functions[s])
      return refuse(
          unusable(plan, fmt::format("the function of stage {} is empty", plan.pipeline.stages[s].name)));
  if (options.workers < 1)
    return refuse(unusable(plan, fmt::format("{} workers can run nothing", options.workers)));

  run::Interpreter interpreter(plan, functions, options);
  bool const finished = interpreter.run();
  if (interpreter.thrown()) std::rethrow_exception(interpreter.thrown());
  if (!finished) return refuse(interpreter.stall_report());
  return {};
}

}  // namespace tessera
