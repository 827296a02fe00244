// SPDX-License-Identifier: Apache-2.0
#include "tessera/tune/cache_json.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "json/json_text.hpp"
#include "json/plan_object.hpp"
#include "json/reader.hpp"
#include "tessera/tune/choose.hpp"

namespace tessera {
namespace {

using json::Document;
using json::Node;
using json::ObjectReader;

constexpr char const* k_schema = "tessera.tune/2";
constexpr json::Codes k_codes{"E0523", "E0524", "E0525", "E0526"};
constexpr char const* k_other_version = "E0527";
constexpr char const* k_contradiction = "E0528";
constexpr std::int64_t k_largest = std::int64_t{1} << 40;
constexpr double k_longest_us = 1e9;

WorkloadKey read_workload(Document& document, Node const& node) {
  ObjectReader reader(document, node, "\"workload\"");
  WorkloadKey key;
  key.structure = reader.string("structure");
  for (auto const& item : reader.array("sizes")) {
    if (!item.is(Node::Kind::array)) {
      document.report(item, k_codes.value, "sizes of a workload are arrays of whole numbers");
      break;
    }
    auto& sizes = key.sizes.emplace_back();
    for (auto const& size : item.items()) sizes.push_back(json::integer_item(document, size, 0, k_largest));
  }
  reader.finish();
  return key;
}

Expected<TuneEntry> read_entry(Document& document, Node const& node) {
  ObjectReader reader(document, node, "an entry");
  TuneEntry entry;
  entry.workload_name = reader.string_or("name", "");
  if (!entry.workload_name.empty()) reader.rename(fmt::format("the entry of \"{}\"", entry.workload_name));
  entry.key.gpu = reader.string("gpu");
  entry.key.driver = reader.string("driver");
  entry.key.libraries = reader.string("libraries");
  if (auto const* item = reader.object("workload")) entry.key.workload = read_workload(document, *item);
  std::vector<std::string> const loads{to_text(Load::any), to_text(Load::steady), to_text(Load::bursts)};
  entry.load = reader.choice_or<std::string>("load", loads.front(), loads, loads);
  entry.hot_us = reader.number("hot_us", 0, k_longest_us);
  entry.cool_us = reader.number("cool_us", 0, k_longest_us);
  entry.baseline = reader.string("baseline");
  entry.baseline_hot_us = reader.number("baseline_hot_us", 0, k_longest_us);
  entry.baseline_cool_us = reader.number("baseline_cool_us", 0, k_longest_us);
  entry.date = reader.string_or("date", "");
  auto const* plan = reader.object("plan");
  reader.finish();
  if (document.failed()) return document.refusal();
  auto read = json::read_plan(document, *plan);
  if (!read) return tl::make_unexpected(std::move(read).error());
  entry.plan = std::move(*read);
  return entry;
}

ProductEntry read_product(Document& document, Node const& node) {
  ObjectReader reader(document, node, "a product");
  ProductEntry entry;
  entry.key.collective = reader.string("collective");
  entry.key.rows = reader.integer("rows", 1, k_largest);
  entry.key.columns = reader.integer("columns", 1, k_largest);
  entry.key.depth = reader.integer("depth", 1, k_largest);
  entry.key.type = reader.string("type");
  entry.key.gpus = reader.integer("gpus", 2, k_largest);
  reader.rename(fmt::format("{} of {} x {} x {}", entry.key.collective, entry.key.rows, entry.key.columns,
                            entry.key.depth));
  entry.key.gpu = reader.string("gpu");
  entry.key.driver = reader.string("driver");
  entry.key.libraries = reader.string("libraries");
  entry.way = reader.string("way");
  entry.kernel = reader.string("kernel");
  entry.parts = reader.integer_or("parts", 0, 0, k_largest);
  entry.us = reader.number("us", 0, k_longest_us);
  entry.sequential_us = reader.number_or("sequential_us", 0, 0, k_longest_us);
  entry.date = reader.string_or("date", "");
  reader.finish();
  return entry;
}

nlohmann::ordered_json to_json(ProductEntry const& entry) {
  nlohmann::ordered_json one;
  one["collective"] = entry.key.collective;
  one["rows"] = entry.key.rows;
  one["columns"] = entry.key.columns;
  one["depth"] = entry.key.depth;
  one["type"] = entry.key.type;
  one["gpus"] = entry.key.gpus;
  one["gpu"] = entry.key.gpu;
  one["driver"] = entry.key.driver;
  one["libraries"] = entry.key.libraries;
  one["way"] = entry.way;
  one["kernel"] = entry.kernel;
  one["parts"] = entry.parts;
  one["us"] = entry.us;
  one["sequential_us"] = entry.sequential_us;
  one["date"] = entry.date;
  return one;
}

nlohmann::ordered_json to_json(TuneEntry const& entry) {
  nlohmann::ordered_json one;
  one["name"] = entry.workload_name;
  one["gpu"] = entry.key.gpu;
  one["driver"] = entry.key.driver;
  one["libraries"] = entry.key.libraries;
  one["workload"] = {{"structure", entry.key.workload.structure}, {"sizes", entry.key.workload.sizes}};
  one["load"] = entry.load;
  one["hot_us"] = entry.hot_us;
  one["cool_us"] = entry.cool_us;
  one["baseline"] = entry.baseline;
  one["baseline_hot_us"] = entry.baseline_hot_us;
  one["baseline_cool_us"] = entry.baseline_cool_us;
  one["date"] = entry.date;
  one["plan"] = json::to_json(entry.plan, json::PlanText::to_run);
  return one;
}

}  // namespace

std::string print_tune_cache(TuneCache const& cache) {
  nlohmann::ordered_json root;
  root["schema"] = k_schema;
  auto& entries = root["entries"] = nlohmann::ordered_json::array();
  for (auto const& entry : cache.entries) entries.push_back(to_json(entry));
  if (!cache.products.empty()) {
    auto& products = root["products"] = nlohmann::ordered_json::array();
    for (auto const& entry : cache.products) products.push_back(to_json(entry));
  }
  return json::pretty(root);
}

Expected<TuneCache> parse_tune_cache(std::string_view text, std::string const& file) {
  auto document = Document::parse(text, file, k_codes);
  if (!document) return tl::make_unexpected(document.error());
  ObjectReader root(*document, document->root());
  auto const schema = root.string("schema");
  if (!schema.empty() && schema != k_schema)
    document->report(document->root(), k_other_version,
                     fmt::format("schema is \"{}\"; this is \"{}\"", schema, k_schema), {},
                     "delete the file and tune again: tessera tune");
  if (document->failed()) return document->refusal();
  TuneCache cache;
  for (auto const& item : root.array("entries")) {
    auto entry = read_entry(*document, item);
    if (!entry) return tl::make_unexpected(std::move(entry).error());
    if (find(cache, entry->key) != nullptr)
      document->report(item, k_contradiction,
                       "this GPU, driver, libraries and workload have an entry already", {},
                       "delete one of the two");
    cache.entries.push_back(std::move(*entry));
  }
  for (auto const& item : root.array_or("products")) {
    auto entry = read_product(*document, item);
    if (find(cache, entry.key) != nullptr)
      document->report(item, k_contradiction, "this GPU, driver, libraries and product have an entry already",
                       {}, "delete one of the two");
    cache.products.push_back(std::move(entry));
  }
  root.finish();
  if (document->failed()) return document->refusal();
  return cache;
}

}  // namespace tessera
