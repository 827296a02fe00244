// SPDX-License-Identifier: Apache-2.0
#include "tessera/plan/recipe_json.hpp"

#include <nlohmann/json.hpp>

#include "json/plan_words.hpp"
#include "json/policy_json.hpp"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;
using json::Document;
using json::ObjectReader;

constexpr std::int64_t k_int = std::numeric_limits<int>::max();

/// The switches of a recipe, by name.
struct Switch {
  char const* name;
  bool Recipe::*value;
};
constexpr Switch k_switches[] = {{"as_needed_order", &Recipe::as_needed_order},
                                 {"merged_tickets", &Recipe::merged_tickets},
                                 {"avoid_wait_kernel", &Recipe::avoid_wait_kernel},
                                 {"reorder_loads", &Recipe::reorder_loads},
                                 {"avoid_custom_order", &Recipe::avoid_custom_order},
                                 {"plain_store", &Recipe::plain_store},
                                 {"chained", &Recipe::chained}};

/// Dimensions of a map that is no table: the places behind them are `each`.
std::size_t rank_of(PolicyMap const& map) {
  std::size_t rank = k_max_rank;
  while (rank > 2 && map.dimension[rank - 1].grouping == Grouping::each) --rank;
  return rank;
}

void read_stage(Document& document, json::Node const& node, NamedRecipe& recipe) {
  ObjectReader reader(document, node, "a stage");
  recipe.kernels.push_back({reader.string("kernel"),
                            static_cast<int>(reader.integer_or("splits", 1, 1, k_int)),
                            reader.string_or("variant", "")});
  auto& how = recipe.how.stages.emplace_back();
  if (reader.has("band")) how.band = static_cast<int>(reader.integer("band", 0, k_int));
  if (reader.has("persistent_blocks"))
    how.persistent_blocks = static_cast<int>(reader.integer("persistent_blocks", 0, k_int));
  reader.finish();
}

void read_policy(Document& document, json::Node const& node, Recipe& how) {
  ObjectReader reader(document, node, "a policy");
  auto& policy = how.policies.emplace_back();
  policy.name = reader.string("name");
  if (auto const* map = reader.find("map"); map != nullptr)
    policy.map = json::read_map(document, *map, std::min<std::size_t>(map->items().size(), k_max_rank),
                                "of the dependence");
  else
    document.report(node, document.codes().missing, "a policy needs \"map\"");
  reader.finish();
}

}  // namespace

std::string print_recipe(NamedRecipe const& recipe) {
  auto const& how = recipe.how;
  Json out;
  out["mechanism"] = json::k_mechanism_words[static_cast<std::size_t>(how.mechanism)];
  out["stages"] = Json::array();
  for (std::size_t s = 0; s < recipe.kernels.size(); ++s) {
    auto const& kernel = recipe.kernels[s];
    Json stage{{"kernel", kernel.name}};
    if (kernel.splits != 1) stage["splits"] = kernel.splits;
    if (!kernel.variant.empty()) stage["variant"] = kernel.variant;
    if (s < how.stages.size()) {
      if (how.stages[s].band) stage["band"] = *how.stages[s].band;
      if (how.stages[s].persistent_blocks) stage["persistent_blocks"] = *how.stages[s].persistent_blocks;
    }
    out["stages"].push_back(std::move(stage));
  }
  for (auto const& policy : how.policies)
    out["policies"].push_back(
        {{"name", policy.name}, {"map", json::to_json(policy.map, rank_of(policy.map))}});
  for (auto const& [name, value] : k_switches)
    if (how.*value != Recipe{}.*value) out[name] = how.*value;
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Expected<NamedRecipe> parse_recipe(std::string_view text, std::string const& file) {
  auto document = Document::parse(text, file, json::k_plan_codes);
  if (!document) return tl::make_unexpected(document.error());
  NamedRecipe recipe;
  ObjectReader root(*document, document->root(), "a recipe");
  recipe.how.mechanism = root.choice("mechanism", json::k_mechanism_words, json::k_mechanism_values);
  for (auto const& item : root.array("stages")) read_stage(*document, item, recipe);
  for (auto const& item : root.array_or("policies")) read_policy(*document, item, recipe.how);
  for (auto const& [name, value] : k_switches) recipe.how.*value = root.boolean_or(name, Recipe{}.*value);
  root.finish();
  if (document->failed()) return document->refusal();
  return recipe;
}

}  // namespace tessera
