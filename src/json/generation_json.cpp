// SPDX-License-Identifier: Apache-2.0
// A measured run of a decoder as a file.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "json/json_text.hpp"
#include "json/probe_json.hpp"
#include "tessera/measure/generation.hpp"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;
using json::Document;
using json::Node;
using json::ObjectReader;

constexpr json::Codes k_codes{"E0601", "E0603", "E0604", "E0605"};
constexpr char const* k_schema = "tessera.generation/1";
constexpr double k_most = 1e15;
constexpr std::int64_t k_most_count = std::int64_t{1} << 31;

GeneratedSequence read_sequence(Document& document, Node const& node) {
  ObjectReader reader(document, node, "a sequence");
  GeneratedSequence sequence;
  sequence.prompt = static_cast<int>(reader.integer("prompt", 0, k_most_count - 1));
  for (auto const& token : reader.array("tokens"))
    sequence.tokens.push_back(static_cast<int>(json::integer_item(document, token, 0, k_most_count - 1)));
  reader.finish();
  if (!document.failed() && sequence.tokens.size() < static_cast<std::size_t>(sequence.prompt))
    document.report(
        node, document.codes().value,
        fmt::format("a sequence of {} tokens with a prompt of {}", sequence.tokens.size(), sequence.prompt));
  return sequence;
}

OperatorTimes read_operator(Document& document, Node const& node) {
  ObjectReader reader(document, node, "an operator");
  OperatorTimes one;
  one.name = reader.string("name");
  // Clocks of SMs differ a little: what was stored there may have been read here before.
  one.waits = reader.number("waits_us", -k_most, k_most);
  one.reads = reader.number("reads_us", -k_most, k_most);
  one.ends = reader.number("ends_us", -k_most, k_most);
  one.apart = reader.number("apart_us", -k_most, k_most);
  reader.finish();
  return one;
}

/// [steps, microseconds of one]
void read_steps(Document& document, Node const& node, Generation& generation) {
  auto const& items = node.items();
  if (items.size() != 2 || !items[0].is(Node::Kind::integer) || items[0].integer < 1 ||
      items[0].integer >= k_most_count ||
      !(items[1].is(Node::Kind::integer) || items[1].is(Node::Kind::number)) || items[1].as_double() < 0) {
    document.report(node, document.codes().value, "times of steps are not two numbers", {},
                    "[steps, microseconds of one]");
    return;
  }
  generation.steps.push_back(static_cast<int>(items[0].integer));
  generation.step_us.push_back(items[1].as_double());
}

}  // namespace

Expected<Generation> parse_generation(std::string_view text, std::string const& file) {
  auto document = Document::parse(text, file, k_codes);
  if (!document) return tl::make_unexpected(document.error());
  ObjectReader root(*document, document->root());
  root.choice("schema", std::vector<std::string>{k_schema}, std::vector<std::string>{k_schema});
  Generation result;
  if (auto const* identity = root.object("identity"))
    result.identity = json::read_identity(*document, *identity);
  result.command = root.string_or("command", "");
  result.model = root.string("model");
  result.weights = root.string("weights");
  result.layers = static_cast<int>(root.integer("layers", 1, 1 << 20));
  result.capacity = static_cast<int>(root.integer("capacity", 1, k_most_count - 1));
  for (auto const& one : root.array("sequences")) result.sequences.push_back(read_sequence(*document, one));
  result.prompt_us = root.number("prompt_us", 0, k_most);
  for (auto const& one : root.array("step_us")) read_steps(*document, one, result);
  result.step_bytes = root.number("step_bytes", 0, 1e18);
  result.floor_us = root.number_or("floor_us", 0, 0, k_most);
  for (auto const& one : root.array_or("operators"))
    result.operators.push_back(read_operator(*document, one));
  for (auto const& one : root.array_or("operators_alone")) {
    ObjectReader reader(*document, one, "an operator");
    result.alone.push_back({reader.string("name"), reader.number("us", 0, k_most)});
    reader.finish();
  }
  root.finish();
  if (document->failed()) return document->refusal();
  return result;
}

std::string print_generation(Generation const& g) {
  Json root;
  root["schema"] = k_schema;
  root["identity"] = json::identity_value(g.identity);
  if (!g.command.empty()) root["command"] = g.command;
  root["model"] = g.model;
  root["weights"] = g.weights;
  root["layers"] = g.layers;
  root["capacity"] = g.capacity;
  root["sequences"] = Json::array();
  for (auto const& one : g.sequences)
    root["sequences"].push_back({{"prompt", one.prompt}, {"tokens", one.tokens}});
  root["prompt_us"] = g.prompt_us;
  root["step_us"] = Json::array();
  for (std::size_t i = 0; i < g.step_us.size(); ++i)
    root["step_us"].push_back(Json::array({g.steps[i], g.step_us[i]}));
  root["step_bytes"] = g.step_bytes;
  if (g.floor_us > 0) root["floor_us"] = g.floor_us;
  if (!g.operators.empty()) root["operators"] = Json::array();
  for (auto const& one : g.operators)
    root["operators"].push_back({{"name", one.name},
                                 {"waits_us", one.waits},
                                 {"reads_us", one.reads},
                                 {"ends_us", one.ends},
                                 {"apart_us", one.apart}});
  for (auto const& one : g.alone) root["operators_alone"].push_back({{"name", one.name}, {"us", one.us}});
  return json::pretty(root);
}

}  // namespace tessera
