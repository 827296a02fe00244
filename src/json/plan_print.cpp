// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "json/json_text.hpp"
#include "json/pipeline_json.hpp"
#include "json/plan_machine.hpp"
#include "json/plan_object.hpp"
#include "json/plan_words.hpp"
#include "json/policy_json.hpp"
#include "tessera/plan/machine_values.hpp"
#include "tessera/plan/plan_json.hpp"

namespace tessera {
namespace {

using Ordered = nlohmann::ordered_json;

Ordered to_json(StagePlan const& stage) {
  Ordered out;
  out["order"] = {{"name", stage.order.name}};
  if (auto const& bands = stage.order.bands) {
    auto& printed = out["order"]["bands"] = {{"rows", bands->rows}};
    if (bands->cluster_rows != 1) printed["cluster_rows"] = bands->cluster_rows;
    if (bands->cluster_columns != 1) printed["cluster_columns"] = bands->cluster_columns;
  } else if (!stage.order.table.empty()) {
    out["order"]["table"] = stage.order.table;
  }
  out["custom_order"] = stage.custom_order;
  out["reorder_loads"] = stage.reorder_loads;
  out["plain_store"] = stage.plain_store;
  if (stage.persistent_blocks != 0) out["persistent_blocks"] = stage.persistent_blocks;
  if (!stage.variant.empty()) out["variant"] = stage.variant;
  out["occupancy"] = stage.occupancy;
  out["waves"] = stage.waves;
  return out;
}

Ordered set_index(int set) { return set < 0 ? Ordered(nullptr) : Ordered(set); }

/// Runs of neighbouring positions: [stage, first position, count].
Ordered to_json(std::vector<Launch::Ticket> const& tickets) {
  Ordered out = Ordered::array();
  for (std::size_t i = 0; i < tickets.size();) {
    std::size_t end = i + 1;
    while (end < tickets.size() && tickets[end].stage == tickets[i].stage &&
           tickets[end].position - tickets[i].position == static_cast<std::int64_t>(end - i))
      ++end;
    out.push_back({tickets[i].stage, tickets[i].position, end - i});
    i = end;
  }
  return out;
}

Ordered to_json(Pipeline const& pipeline, Launch const& launch) {
  Ordered out{{"stages", Ordered::array()}};
  for (int s = launch.first; s < launch.end(); ++s)
    out["stages"].push_back(pipeline.stages[static_cast<std::size_t>(s)].name);
  out["start"] = json::k_start_words[static_cast<std::size_t>(launch.start)];
  if (launch.wait_kernel) out["wait_kernel"] = true;
  if (launch.workers != 0) out["workers"] = launch.workers;
  if (!launch.tickets.empty()) out["tickets"] = to_json(launch.tickets);
  return out;
}

}  // namespace

nlohmann::ordered_json json::to_json(Plan const& plan, PlanText text) {
  auto const stage_name = [&](int s) { return plan.pipeline.stages[static_cast<std::size_t>(s)].name; };
  Ordered out;
  out["schema"] = json::k_plan_schema;
  out["machine"] = plan.machine;
  if (plan.machine_values && text == PlanText::whole && are_of_a_profile(*plan.machine_values))
    out["machine_values"] = json::print_machine_values(*plan.machine_values);
  out["mechanism"] = mechanism_text(plan);
  out["predicted_us"] = plan.predicted_us;
  out["stream_order_us"] = plan.stream_order_us;
  out["bound_by"] = plan.bound_by;
  out["why"] = plan.why;
  out["proof"] = plan.proof;
  json::print_pipeline(plan.pipeline, out["pipeline"], text == PlanText::whole);
  out["launches"] = Ordered::array();
  for (auto const& launch : plan.launches) out["launches"].push_back(tessera::to_json(plan.pipeline, launch));
  out["stages"] = Ordered::array();
  for (auto const& stage : plan.stages) out["stages"].push_back(tessera::to_json(stage));
  out["semaphores"] = Ordered::array();
  for (auto const& set : plan.semaphores) {
    Ordered item{{"producer", stage_name(set.producer)}, {"policy", set.policy}};
    item["map"] =
        json::to_json(set.map, plan.pipeline.stages[static_cast<std::size_t>(set.producer)].grid.size());
    item["first"] = set.first;
    item["count"] = set.count;
    out["semaphores"].push_back(std::move(item));
  }
  out["dependences"] = Ordered::array();
  for (auto const& dependence : plan.dependences)
    out["dependences"].push_back({{"semaphore_set", set_index(dependence.semaphore_set)}});
  out["reuse_edges"] = Ordered::array();
  for (auto const& edge : plan.reuse_edges)
    out["reuse_edges"].push_back({{"writer", stage_name(edge.writer)},
                                  {"reader", stage_name(edge.reader)},
                                  {"buffer", edge.buffer},
                                  {"semaphore_set", set_index(edge.semaphore_set)}});
  if (text == PlanText::to_run) return out;
  out["alternatives"] = Ordered::array();
  for (auto const& alternative : plan.alternatives)
    out["alternatives"].push_back({{"description", alternative.description},
                                   {"predicted_us", alternative.predicted_us},
                                   {"reason", alternative.reason}});
  return out;
}

std::string print_plan(Plan const& plan) { return json::pretty(json::to_json(plan, json::PlanText::whole)); }

}  // namespace tessera
