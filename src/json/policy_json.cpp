// SPDX-License-Identifier: Apache-2.0
#include "json/policy_json.hpp"

#include <fmt/format.h>

namespace tessera::json {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t k_int = 0x7fffffff;

Json to_json(DimensionMap const& map) {
  switch (map.grouping) {
    case Grouping::each: return "each";
    case Grouping::all: return "all";
    case Grouping::block: return {{"block", map.width}};
    case Grouping::stride: return {{"stride", map.width}};
  }
  return nullptr;
}

DimensionMap read_dimension(Document& document, Node const& node) {
  if (node.text() == "each") return {Grouping::each, 1};
  if (node.text() == "all") return {Grouping::all, 1};
  auto const width_of = [&](char const* word) {
    ObjectReader reader(document, node, "a dimension of \"map\"");
    auto const width = static_cast<int>(reader.integer(word, 1, k_int));
    reader.finish();
    return width;
  };
  if (node.find("block") != nullptr) return {Grouping::block, width_of("block")};
  if (node.find("stride") != nullptr) return {Grouping::stride, width_of("stride")};
  document.report(node, document.codes().value,
                  "a dimension of \"map\" is \"each\", \"all\", {\"block\": n} or {\"stride\": n}");
  return {};
}

}  // namespace

Json to_json(PolicyMap const& map, std::size_t rank) {
  if (map.is_table()) return {{"table", map.table}};
  auto out = Json::array();
  for (std::size_t d = 0; d < rank; ++d) out.push_back(to_json(map.dimension[d]));
  return out;
}

Json to_json(NamedPolicy const& policy, std::size_t rank) {
  Json out;
  if (!policy.name.empty()) out["name"] = policy.name;
  out["map"] = to_json(policy.map, rank);
  return out;
}

PolicyMap read_map(Document& document, Node const& node, std::size_t rank, std::string const& producer) {
  if (node.is(Node::Kind::object)) {
    ObjectReader reader(document, node, "\"map\"");
    std::vector<std::int32_t> table;
    for (auto const& item : reader.array("table"))
      table.push_back(static_cast<std::int32_t>(integer_item(document, item, 0, k_int)));
    reader.finish();
    return table_map(std::move(table));
  }
  PolicyMap map;
  if (!node.is(Node::Kind::array) || node.items().size() != rank) {
    auto const given = node.items().size();
    document.report(node, document.codes().value,
                    fmt::format("\"map\" has {} dimension{}, and the grid of its producer {} has {}", given,
                                given == 1 ? "" : "s", producer, rank),
                    {},
                    rank == 2 ? R"(columns, then rows: ["all", {"block": 2}])"
                              : "a word for each dimension of the grid, the fastest first");
    return map;
  }
  for (std::size_t d = 0; d < rank && d < k_max_rank; ++d)
    map.dimension[d] = read_dimension(document, node.items()[d]);
  return map;
}

NamedPolicy read_policy(Document& document, Node const& node, std::size_t rank, std::string const& producer) {
  ObjectReader reader(document, node, "a policy");
  NamedPolicy policy;
  policy.name = reader.string_or("name", "");
  if (auto const* map = reader.find("map"); map != nullptr)
    policy.map = read_map(document, *map, rank, producer);
  else
    document.report(node, document.codes().missing, "a policy needs \"map\"");
  reader.finish();
  return policy;
}

}  // namespace tessera::json
