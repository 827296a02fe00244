// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "json/json_text.hpp"
#include "json/pipeline_json.hpp"
#include "json/policy_json.hpp"
#include "json/workload_read.hpp"
#include "tessera/describe/workload_json.hpp"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;
using namespace json;

/// Of the grid of tiles that the operator's output is cut into.
std::size_t rank_of(OperatorGraph const& graph, std::string const& name) {
  for (auto const& op : graph.operators)
    if (op.name == name) return op.batch > 1 ? 3 : 2;
  return 2;
}

Json printed(OperatorGraph const& graph, Operator const& op) {
  Json out = {{"name", op.name}, {"kind", operator_kinds().word_of(op.kind)}};
  if (op.epilogue != Epilogue::none) out["epilogue"] = epilogues().word_of(op.epilogue);
  out["m"] = op.m;
  out["n"] = op.n;
  out["k"] = op.k;
  if (op.batch != 1) out["batch"] = op.batch;
  if (!op.groups.empty()) out["groups"] = op.groups;
  if (!op.output.empty()) out["output"] = op.output;
  out["inputs"] = Json::array();
  for (auto const& input : op.inputs) {
    Json item = {{"name", input.name}};
    if (!input.producer.empty()) item["producer"] = input.producer;
    if (input.buffer != input.producer || input.producer.empty()) item["buffer"] = input.buffer;
    if (input.pattern != ReadPattern::rows) item["pattern"] = read_patterns().word_of(input.pattern);
    if (input.policy) item["policy"] = to_json(*input.policy, rank_of(graph, input.producer));
    out["inputs"].push_back(std::move(item));
  }
  return out;
}

Json printed(OperatorGraph const& graph) {
  Json out = {{"schema", "tessera.workload/1"}, {"name", graph.name}, {"element_bytes", graph.element_bytes}};
  if (graph.type != ElementType::bf16) out["type"] = element_types().word_of(graph.type);
  auto const& a = graph.attention;
  if (a != AttentionShape{})
    out["attention"] = {{"sequences", a.sequences},     {"tokens", a.tokens},     {"cached", a.cached},
                        {"query_heads", a.query_heads}, {"kv_heads", a.kv_heads}, {"head_dim", a.head_dim}};
  if (a.causal) out["attention"]["causal"] = true;
  if (a.window > 0) out["attention"]["window"] = a.window;
  auto const& c = graph.conv;
  if (c != ConvShape{})
    out["conv"] = {{"images", c.images},     {"p", c.p}, {"q", c.q},
                   {"channels", c.channels}, {"r", c.r}, {"s", c.s}};
  out["operators"] = Json::array();
  for (auto const& op : graph.operators) out["operators"].push_back(printed(graph, op));
  return out;
}

Json printed(Pipeline const& pipeline) {
  Json out = {{"schema", "tessera.workload/1"}};
  print_pipeline(pipeline, out, false);
  return out;
}

Json printed(Loop const& loop) {
  Json out = {{"schema", "tessera.workload/1"}};
  print_loop(loop, out);
  return out;
}

}  // namespace

std::string print_workload(Workload const& workload) {
  return pretty(std::visit([](auto const& value) { return printed(value); }, workload));
}

}  // namespace tessera
