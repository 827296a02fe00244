// SPDX-License-Identifier: Apache-2.0
#include "json/plan_pipeline.hpp"

#include <fmt/format.h>

#include "diagnostic/nearest.hpp"

namespace tessera::json {
namespace {

using Ordered = nlohmann::ordered_json;

constexpr std::int64_t k_int = std::numeric_limits<int>::max();

std::vector<std::string> const k_actions{"release_waiters", "start_peer_copy", "reduce_into_peer"};
std::vector<OnComplete> const k_action_values{OnComplete::release_waiters, OnComplete::start_peer_copy,
                                              OnComplete::reduce_into_peer};

struct Operation {
  char const* word;
  TileExpr::Op op;
};
constexpr Operation k_operations[] = {{"+", TileExpr::Op::add},        {"*", TileExpr::Op::multiply},
                                      {"//", TileExpr::Op::floor_div}, {"%", TileExpr::Op::modulo},
                                      {"min", TileExpr::Op::minimum},  {"max", TileExpr::Op::maximum}};

Ordered to_json(TileExpr const& expr, std::vector<std::string> const& names) {
  if (expr.op == TileExpr::Op::constant) return expr.value;
  if (expr.op == TileExpr::Op::dimension) return names[static_cast<std::size_t>(expr.value)];
  Ordered out = Ordered::array();
  for (auto const& operation : k_operations)
    if (operation.op == expr.op) out.push_back(operation.word);
  for (auto const& argument : expr.arguments) out.push_back(to_json(argument, names));
  if (expr.arguments.size() == 1) out.push_back(expr.value);
  return out;
}

void add_place(Ordered& out, SourceLine const& where) {
  if (where.file.empty() && where.line == 0) return;
  out["where"] = {{"file", where.file}, {"line", where.line}};
}

SourceLine read_place(Document& document, ObjectReader& reader) {
  auto const* node = reader.object_or("where");
  if (node == nullptr) return {};
  ObjectReader place(document, *node, "\"where\"");
  SourceLine where{place.string("file"), static_cast<int>(place.integer("line", 0, k_int))};
  place.finish();
  return where;
}

Ordered to_json(Stage const& stage) {
  Ordered out;
  out["name"] = stage.name;
  for (auto const& dim : stage.grid) out["grid"].push_back({{"name", dim.name}, {"extent", dim.extent}});
  out["splits"] = stage.splits;
  out["output"] = stage.output;
  out["operands"] = Ordered::array();
  for (auto const& operand : stage.operands)
    out["operands"].push_back({{"name", operand.name},
                               {"buffer", operand.buffer},
                               {"bytes_per_block", operand.bytes_per_block},
                               {"unique_bytes", operand.unique_bytes}});
  out["kernel"] = stage.kernel;
  out["resources"] = {{"threads", stage.resources.threads},
                      {"registers_per_thread", stage.resources.registers_per_thread},
                      {"shared_bytes", stage.resources.shared_bytes}};
  out["flops_per_block"] = stage.flops_per_block;
  out["store_bytes_per_block"] = stage.store_bytes_per_block;
  out["k_steps"] = stage.k_steps;
  out["pipeline_stages"] = stage.pipeline_stages;
  add_place(out, stage.where);
  return out;
}

Stage read_stage(Document& document, Node const& node) {
  ObjectReader reader(document, node, "a stage");
  Stage stage;
  stage.name = reader.string("name");
  reader.rename(fmt::format("stage \"{}\"", stage.name));
  for (auto const& item : reader.array("grid")) {
    ObjectReader dim(document, item, fmt::format("a dimension of \"{}\"", stage.name));
    auto name = dim.string("name");
    stage.grid.push_back({std::move(name), dim.integer("extent", 1, k_int)});
    dim.finish();
  }
  stage.splits = static_cast<int>(reader.integer("splits", 1, k_int));
  stage.output = reader.string("output");
  for (auto const& item : reader.array("operands")) {
    ObjectReader from(document, item, fmt::format("an operand of \"{}\"", stage.name));
    Operand operand;
    operand.name = from.string("name");
    operand.buffer = from.string("buffer");
    operand.bytes_per_block = from.number("bytes_per_block", 0);
    operand.unique_bytes = from.number("unique_bytes", 0);
    from.finish();
    stage.operands.push_back(std::move(operand));
  }
  stage.kernel = reader.string_or("kernel", "");
  if (auto const* item = reader.object("resources")) {
    ObjectReader from(document, *item, fmt::format("the resources of \"{}\"", stage.name));
    stage.resources.threads = static_cast<int>(from.integer("threads", 1, 1024));
    stage.resources.registers_per_thread = static_cast<int>(from.integer("registers_per_thread", 0, 1024));
    stage.resources.shared_bytes = static_cast<int>(from.integer("shared_bytes", 0, 1 << 28));
    from.finish();
  }
  stage.flops_per_block = reader.number("flops_per_block", 0);
  stage.store_bytes_per_block = reader.number("store_bytes_per_block", 0);
  stage.k_steps = static_cast<int>(reader.integer("k_steps", 1, k_int));
  stage.pipeline_stages = static_cast<int>(reader.integer("pipeline_stages", 1, 1 << 16));
  stage.where = read_place(document, reader);
  reader.finish();
  return stage;
}

TileExpr read_expression(Document& document, Node const& node, std::vector<std::string> const& names) {
  TileExpr expr;
  auto const wrong = [&](std::string message, std::string hint = "") {
    document.report(node, k_plan_expression, std::move(message), {}, std::move(hint));
    return TileExpr{};
  };
  if (node.is(Node::Kind::integer)) {
    expr.value = node.integer;
    return expr;
  }
  if (node.is(Node::Kind::string)) {
    for (std::size_t d = 0; d < names.size(); ++d)
      if (names[d] == node.text()) {
        expr.op = TileExpr::Op::dimension;
        expr.value = static_cast<std::int64_t>(d);
        return expr;
      }
    return wrong(fmt::format("the consumer has no dimension \"{}\"", node.text()),
                 names.empty() ? "" : "its dimensions: " + list_of(names));
  }
  auto const& items = node.items();
  if (!node.is(Node::Kind::array) || items.size() != 3)
    return wrong("an expression is a whole number, a dimension's name, or an operation with two arguments");
  for (auto const& operation : k_operations) {
    if (items[0].text() != operation.word) continue;
    expr.op = operation.op;
    expr.arguments.push_back(read_expression(document, items[1], names));
    bool const by_constant = expr.op == TileExpr::Op::multiply || expr.op == TileExpr::Op::floor_div ||
                             expr.op == TileExpr::Op::modulo;
    if (!by_constant) {
      expr.arguments.push_back(read_expression(document, items[2], names));
    } else {
      bool const divides = expr.op != TileExpr::Op::multiply;
      if (!items[2].is(Node::Kind::integer) || (divides && items[2].integer < 1))
        return wrong(fmt::format("\"{}\" needs a {}whole number as its second argument", operation.word,
                                 divides ? "positive " : ""));
      expr.value = items[2].integer;
    }
    return expr;
  }
  return wrong("unknown operation", R"(known: "+", "*", "//", "%", "min" and "max")");
}

int read_stage_index(Document& document, ObjectReader& reader, char const* member, Pipeline const& pipeline) {
  auto const name = reader.string(member);
  if (auto const index = find_stage(pipeline, name); index >= 0) return index;
  if (!document.failed()) {
    std::vector<std::string> names;
    for (auto const& stage : pipeline.stages) names.push_back(stage.name);
    document.report(reader.node(), k_plan_codes.value,
                    fmt::format("\"{}\" names no stage: \"{}\"", member, name), {},
                    did_you_mean(name, names));
  }
  return -1;
}

Dependence read_dependence(Document& document, Node const& node, Pipeline const& pipeline) {
  ObjectReader reader(document, node, "a dependence");
  Dependence dependence;
  dependence.consumer = read_stage_index(document, reader, "consumer", pipeline);
  dependence.producer = read_stage_index(document, reader, "producer", pipeline);
  dependence.operand = reader.string("operand");
  // Without a consumer there are no dimensions to read expressions with.
  if (dependence.consumer < 0) return dependence;
  auto const names = pipeline.stages[static_cast<std::size_t>(dependence.consumer)].dimension_names();
  for (auto const& box : reader.array("accesses")) {
    Access access;
    for (auto const& item : box.items()) {
      ObjectReader range(document, item, "a range");
      TileRange result;
      if (auto const* begin = range.find("begin")) result.begin = read_expression(document, *begin, names);
      if (auto const* end = range.find("end")) result.end = read_expression(document, *end, names);
      if (!range.has("begin") || !range.has("end"))
        document.report(item, k_plan_codes.missing, "a range needs \"begin\" and \"end\"");
      result.clamp = range.boolean_or("clamp", false);
      range.finish();
      access.ranges.push_back(std::move(result));
    }
    dependence.accesses.push_back(std::move(access));
  }
  dependence.on_complete =
      reader.choice_or("on_complete", OnComplete::release_waiters, k_actions, k_action_values);
  dependence.where = read_place(document, reader);
  reader.finish();
  return dependence;
}

Ordered to_json(Pipeline const& pipeline, Dependence const& dependence) {
  auto const& consumer = pipeline.stages[static_cast<std::size_t>(dependence.consumer)];
  auto const names = consumer.dimension_names();
  Ordered out;
  out["consumer"] = consumer.name;
  out["producer"] = pipeline.stages[static_cast<std::size_t>(dependence.producer)].name;
  out["operand"] = dependence.operand;
  out["accesses"] = Ordered::array();
  for (auto const& access : dependence.accesses) {
    Ordered box = Ordered::array();
    for (auto const& range : access.ranges) {
      Ordered item{{"begin", to_json(range.begin, names)}, {"end", to_json(range.end, names)}};
      if (range.clamp) item["clamp"] = true;
      box.push_back(std::move(item));
    }
    out["accesses"].push_back(std::move(box));
  }
  if (dependence.on_complete != OnComplete::release_waiters)
    out["on_complete"] = k_actions[static_cast<std::size_t>(dependence.on_complete)];
  add_place(out, dependence.where);
  return out;
}

}  // namespace

nlohmann::ordered_json to_json(Pipeline const& pipeline) {
  Ordered out;
  out["name"] = pipeline.name;
  add_place(out, pipeline.where);
  out["stages"] = Ordered::array();
  for (auto const& stage : pipeline.stages) out["stages"].push_back(to_json(stage));
  out["dependences"] = Ordered::array();
  for (auto const& dependence : pipeline.dependences)
    out["dependences"].push_back(to_json(pipeline, dependence));
  return out;
}

Pipeline read_pipeline(Document& document, Node const& node) {
  ObjectReader reader(document, node, "the pipeline");
  Pipeline pipeline;
  pipeline.name = reader.string("name");
  pipeline.where = read_place(document, reader);
  for (auto const& item : reader.array("stages")) pipeline.stages.push_back(read_stage(document, item));
  for (auto const& item : reader.array("dependences"))
    pipeline.dependences.push_back(read_dependence(document, item, pipeline));
  reader.finish();
  return pipeline;
}

}  // namespace tessera::json
