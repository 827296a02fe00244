// SPDX-License-Identifier: Apache-2.0
// A simulated loop with roles: time, a row for each boundary between stages, and the figures behind it.
#include <fmt/format.h>

#include "report/study_machine.hpp"
#include "tessera/report/study.hpp"
#include "tessera/simulate/role_loop.hpp"

namespace tessera {
namespace {

double us(double ns) { return ns / 1000; }

StudyTable time_table(RoleLoop const& loop, RolePrediction const& made) {
  StudyCell const behind = loop.iterations > 1 ? StudyCell{us(made.steady_ns)} : StudyCell{std::string()};
  return {
      "time",
      "One launch",
      "Microseconds. Behind the first iteration: of each one, in the mean. What a launch takes before its "
      "blocks start is not in it.",
      {"iterations", "in all", "an iteration", "behind the first", "of the memory's bandwidth, %"},
      {{static_cast<double>(loop.iterations), us(made.total_ns), us(made.iteration_ns), behind,
        100 * made.dram_share}},
      {}};
}

StudyTable boundaries_table(RoleLoop const& loop, RolePrediction const& made) {
  StudyTable table{
      "boundaries",
      "Boundaries, where nothing is multiplied",
      "Microseconds, means over SMs and iterations. Still: store + post + results + activations + "
      "weights. Apart: from the first SM that has multiplied the stage before to the last one.",
      {"from", "to", "still", "store", "post", "results", "activations", "weights", "longest", "slots full",
       "of", "apart"},
      {},
      {StudyPlot::Kind::bars, {0, 1}, {3, 4, 5, 6, 7}, 0, " us"}};
  for (auto const& one : made.boundaries)
    table.rows.push_back({one.from, one.to, us(one.still_ns()), us(one.end_ns), us(one.post_ns),
                          us(one.results_ns), us(one.activations_ns), us(one.weights_ns), us(one.most_ns),
                          one.full_slots, static_cast<double>(loop.rings.slots), us(one.apart_ns)});
  return table;
}

StudyTable stages_table(RolePrediction const& made) {
  StudyTable table{"stages",
                   "Between boundaries",
                   "Microseconds of a tile, means over SMs and iterations.",
                   {"stage", "multiplies", "waits for weights", "waits for activations"},
                   {},
                   {}};
  for (auto const& one : made.stages)
    table.rows.push_back({one.name, us(one.multiply_ns), us(one.weights_ns), us(one.activations_ns)});
  return table;
}

StudyTable figures_table(RoleMachine const& machine) {
  StudyTable table{"figures", "Figures of the machine", "", {"figure", "value", "unit", "source"}, {}, {}};
  for (auto const& figure : role_figures())
    table.rows.push_back({figure.name, machine.*figure.member, figure.unit, figure.source});
  for (auto const& curve : role_curves())
    table.rows.push_back(
        {curve.name, "by bytes on their way, " + to_text(machine.*curve.member), curve.unit, curve.source});
  return table;
}

}  // namespace

StudyDocument study_document(RoleLoop const& loop, RolePrediction const& made, RoleMachine const& figures,
                             MachineProfile const& machine) {
  StudyDocument document;
  document.title = fmt::format("{}: one launch with roles on {}", loop.plan.loop.body.name, machine.gpu);
  document.notes = {
      "Simulated; what is assumed, and how far it is off: docs/tile-operations.md, \"Predicting it\"."};
  document.tables = {time_table(loop, made), boundaries_table(loop, made), stages_table(made),
                     figures_table(figures)};
  document.machine = report::study_machine(machine);
  return document;
}

}  // namespace tessera
