// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "json/json_text.hpp"
#include "json/workload_read.hpp"
#include "tessera/describe/parse_tile_expr.hpp"
#include "tessera/describe/workload_json.hpp"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;
using namespace json;

Json printed(Operator const& op) {
  Json out = {{"name", op.name}, {"kind", operator_kinds().word_of(op.kind)}};
  if (op.epilogue != Epilogue::none) out["epilogue"] = epilogues().word_of(op.epilogue);
  out["m"] = op.m;
  out["n"] = op.n;
  out["k"] = op.k;
  if (op.batch != 1) out["batch"] = op.batch;
  if (!op.output.empty()) out["output"] = op.output;
  out["inputs"] = Json::array();
  for (auto const& input : op.inputs) {
    Json item = {{"name", input.name}};
    if (!input.producer.empty()) item["producer"] = input.producer;
    if (input.buffer != input.producer || input.producer.empty()) item["buffer"] = input.buffer;
    if (input.pattern != ReadPattern::rows) item["pattern"] = read_patterns().word_of(input.pattern);
    out["inputs"].push_back(std::move(item));
  }
  return out;
}

Json printed(OperatorGraph const& graph) {
  Json out = {{"schema", "tessera.workload/1"}, {"name", graph.name}, {"element_bytes", graph.element_bytes}};
  auto const& a = graph.attention;
  if (a != AttentionShape{})
    out["attention"] = {{"sequences", a.sequences},     {"tokens", a.tokens},     {"cached", a.cached},
                        {"query_heads", a.query_heads}, {"kv_heads", a.kv_heads}, {"head_dim", a.head_dim}};
  auto const& c = graph.conv;
  if (c != ConvShape{})
    out["conv"] = {{"images", c.images},     {"p", c.p}, {"q", c.q},
                   {"channels", c.channels}, {"r", c.r}, {"s", c.s}};
  out["operators"] = Json::array();
  for (auto const& op : graph.operators) out["operators"].push_back(printed(op));
  return out;
}

Json printed(Stage const& stage) {
  Json out = {{"name", stage.name}, {"grid", Json::object()}};
  for (auto const& dim : stage.grid) out["grid"][dim.name] = dim.extent;
  if (stage.splits != 1) out["splits"] = stage.splits;
  if (stage.output != stage.name) out["output"] = stage.output;
  if (!stage.operands.empty()) out["operands"] = Json::array();
  for (auto const& operand : stage.operands)
    out["operands"].push_back({{"name", operand.name},
                               {"buffer", operand.buffer},
                               {"bytes_per_block", operand.bytes_per_block},
                               {"unique_bytes", operand.unique_bytes}});
  if (!stage.kernel.empty()) out["kernel"] = stage.kernel;
  out["resources"] = {{"threads", stage.resources.threads},
                      {"registers_per_thread", stage.resources.registers_per_thread},
                      {"shared_bytes", stage.resources.shared_bytes}};
  out["flops_per_block"] = stage.flops_per_block;
  out["store_bytes_per_block"] = stage.store_bytes_per_block;
  out["k_steps"] = stage.k_steps;
  out["pipeline_stages"] = stage.pipeline_stages;
  return out;
}

Json printed(Pipeline const& pipeline, Dependence const& dependence) {
  auto const& consumer = pipeline.stages[static_cast<std::size_t>(dependence.consumer)];
  auto const& producer = pipeline.stages[static_cast<std::size_t>(dependence.producer)];
  Json out = {{"consumer", consumer.name}, {"producer", producer.name}, {"operand", dependence.operand}};
  if (dependence.on_complete != OnComplete::release_waiters)
    out["on_complete"] = completions().word_of(dependence.on_complete);
  out["accesses"] = Json::array();
  auto const names = consumer.dimension_names();
  for (auto const& access : dependence.accesses) {
    Json ranges = Json::array();
    for (std::size_t i = 0; i < access.ranges.size(); ++i)
      ranges.push_back(to_text(access.ranges[i], names, producer.grid[i].extent));
    out["accesses"].push_back(std::move(ranges));
  }
  return out;
}

Json printed(Pipeline const& pipeline) {
  Json out = {{"schema", "tessera.workload/1"}, {"name", pipeline.name}, {"stages", Json::array()}};
  for (auto const& stage : pipeline.stages) out["stages"].push_back(printed(stage));
  out["dependences"] = Json::array();
  for (auto const& dependence : pipeline.dependences)
    out["dependences"].push_back(printed(pipeline, dependence));
  return out;
}

}  // namespace

std::string print_workload(Workload const& workload) {
  return pretty(std::visit([](auto const& value) { return printed(value); }, workload));
}

}  // namespace tessera
