// SPDX-License-Identifier: Apache-2.0
#include "tessera/tune/cache_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "json/json_text.hpp"
#include "json/reader.hpp"

namespace tessera {
namespace {

using json::Document;
using json::Node;
using json::ObjectReader;

constexpr char const* k_schema = "tessera.tune/1";
constexpr json::Codes k_codes{"E0523", "E0524", "E0525", "E0526"};
constexpr char const* k_other_version = "E0527";
constexpr char const* k_contradiction = "E0528";
constexpr std::int64_t k_largest = 1 << 30;
constexpr double k_longest_us = 1e9;

TunedSize read_size(Document& document, Node const& node) {
  ObjectReader reader(document, node, "a size");
  TunedSize size;
  size.tokens = reader.integer("tokens", 1, k_largest);
  reader.rename(fmt::format("the size of {} tokens", size.tokens));
  size.candidate = reader.string("candidate");
  size.hot_us = reader.number("hot_us", 0, k_longest_us);
  size.cool_us = reader.number("cool_us", 0, k_longest_us);
  size.baseline = reader.string("baseline");
  size.baseline_hot_us = reader.number("baseline_hot_us", 0, k_longest_us);
  size.baseline_cool_us = reader.number("baseline_cool_us", 0, k_longest_us);
  size.date = reader.string_or("date", "");
  reader.finish();
  return size;
}

TuneEntry read_entry(Document& document, Node const& node) {
  ObjectReader reader(document, node, "an entry");
  TuneEntry entry;
  entry.key.gpu = reader.string("gpu");
  entry.key.driver = reader.string("driver");
  entry.key.library = reader.string("library");
  entry.key.form = reader.choice<std::string>("form", {"gelu", "swiglu"}, {"gelu", "swiglu"});
  entry.key.type = reader.choice<std::string>("type", {"bf16", "fp16"}, {"bf16", "fp16"});
  entry.key.model = reader.integer("model", 8, k_largest);
  entry.key.hidden = reader.integer("hidden", 8, k_largest);
  for (auto const& item : reader.array("sizes")) {
    auto size = read_size(document, item);
    if (!document.failed() && !entry.sizes.empty() && size.tokens <= entry.sizes.back().tokens)
      document.report(
          item, k_contradiction,
          fmt::format("the size of {} tokens follows that of {}", size.tokens, entry.sizes.back().tokens), {},
          "sizes ascend, each once");
    entry.sizes.push_back(std::move(size));
  }
  reader.finish();
  return entry;
}

}  // namespace

std::string print_tune_cache(TuneCache const& cache) {
  nlohmann::ordered_json root;
  root["schema"] = k_schema;
  auto& entries = root["entries"] = nlohmann::ordered_json::array();
  for (auto const& entry : cache.entries) {
    nlohmann::ordered_json one;
    one["gpu"] = entry.key.gpu;
    one["driver"] = entry.key.driver;
    one["library"] = entry.key.library;
    one["form"] = entry.key.form;
    one["type"] = entry.key.type;
    one["model"] = entry.key.model;
    one["hidden"] = entry.key.hidden;
    auto& sizes = one["sizes"] = nlohmann::ordered_json::array();
    for (auto const& size : entry.sizes)
      sizes.push_back({{"tokens", size.tokens},
                       {"candidate", size.candidate},
                       {"hot_us", size.hot_us},
                       {"cool_us", size.cool_us},
                       {"baseline", size.baseline},
                       {"baseline_hot_us", size.baseline_hot_us},
                       {"baseline_cool_us", size.baseline_cool_us},
                       {"date", size.date}});
    entries.push_back(std::move(one));
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
    if (!document->failed() && find(cache, entry.key) != nullptr)
      document->report(item, k_contradiction, "this GPU, driver, library and shape has an entry already", {},
                       "delete one of the two");
    cache.entries.push_back(std::move(entry));
  }
  root.finish();
  if (document->failed()) return document->refusal();
  return cache;
}

}  // namespace tessera
