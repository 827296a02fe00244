// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "json/json_text.hpp"
#include "json/pipeline_json.hpp"
#include "json/plan_words.hpp"
#include "tessera/plan/plan_json.hpp"

namespace tessera {
namespace {

using Ordered = nlohmann::ordered_json;

Ordered to_json(DimensionMap const& map) {
  switch (map.grouping) {
    case Grouping::each: return "each";
    case Grouping::all: return "all";
    case Grouping::block: return {{"block", map.width}};
    case Grouping::stride: return {{"stride", map.width}};
  }
  return nullptr;
}

Ordered to_json(StagePlan const& stage) {
  Ordered out;
  out["order"] = {{"name", stage.order.name}};
  if (!stage.order.table.empty()) out["order"]["table"] = stage.order.table;
  out["custom_order"] = stage.custom_order;
  out["wait_kernel"] = stage.wait_kernel;
  out["reorder_loads"] = stage.reorder_loads;
  out["plain_store"] = stage.plain_store;
  if (stage.persistent_blocks != 0) out["persistent_blocks"] = stage.persistent_blocks;
  out["occupancy"] = stage.occupancy;
  out["waves"] = stage.waves;
  return out;
}

Ordered set_index(int set) { return set < 0 ? Ordered(nullptr) : Ordered(set); }

/// Runs of neighbouring positions: [stage, first position, count].
Ordered to_json(std::vector<Plan::Ticket> const& tickets) {
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

}  // namespace

std::string print_plan(Plan const& plan) {
  auto const stage_name = [&](int s) { return plan.pipeline.stages[static_cast<std::size_t>(s)].name; };
  Ordered out;
  out["schema"] = json::k_plan_schema;
  out["machine"] = plan.machine;
  out["mechanism"] = json::k_mechanism_words[static_cast<std::size_t>(plan.mechanism)];
  out["predicted_us"] = plan.predicted_us;
  out["stream_order_us"] = plan.stream_order_us;
  out["bound_by"] = plan.bound_by;
  out["why"] = plan.why;
  out["proof"] = plan.proof;
  json::print_pipeline(plan.pipeline, out["pipeline"], true);
  out["stages"] = Ordered::array();
  for (auto const& stage : plan.stages) out["stages"].push_back(to_json(stage));
  out["semaphores"] = Ordered::array();
  for (auto const& set : plan.semaphores) {
    Ordered item{{"producer", stage_name(set.producer)}, {"policy", set.policy}, {"map", Ordered::array()}};
    auto const rank = plan.pipeline.stages[static_cast<std::size_t>(set.producer)].grid.size();
    for (std::size_t d = 0; d < rank; ++d) item["map"].push_back(to_json(set.map.dimension[d]));
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
  if (plan.workers != 0) out["workers"] = plan.workers;
  if (!plan.tickets.empty()) out["tickets"] = to_json(plan.tickets);
  out["alternatives"] = Ordered::array();
  for (auto const& alternative : plan.alternatives)
    out["alternatives"].push_back({{"description", alternative.description},
                                   {"predicted_us", alternative.predicted_us},
                                   {"reason", alternative.reason}});
  return json::pretty(out);
}

}  // namespace tessera
