// SPDX-License-Identifier: Apache-2.0
// Reads plans. What the text says is read first; then every part is held against the others, so that whoever
// gets the plan may index with it.
#include "tessera/plan/plan_json.hpp"

#include "tessera/plan/orders.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "json/pipeline_json.hpp"
#include "json/plan_launches.hpp"
#include "json/plan_machine.hpp"
#include "json/plan_object.hpp"
#include "json/plan_validate.hpp"
#include "json/plan_words.hpp"
#include "json/policy_json.hpp"
#include "json/reader.hpp"
#include "json/workload_parts.hpp"
#include "tessera/measure/machine_json.hpp"

namespace tessera {
namespace {

using json::Document;
using json::Node;
using json::ObjectReader;

constexpr char const* k_other_version = "E0254";
constexpr char const* k_launches = "E0263";
constexpr char const* k_order = "E0257";
constexpr std::int64_t k_int = std::numeric_limits<int>::max();
/// Every tile is looked at when a plan is read: four times the largest pipeline that plans are made for.
constexpr std::int64_t k_most_tiles = 1 << 22;

/// What reads a plan looks for stages by their names, and in launches; more than can be planned.
constexpr std::size_t k_most_stages = 4096;

bool small_enough(Document& document, Node const& node, Pipeline const& pipeline) {
  if (pipeline.stages.size() > k_most_stages) {
    document.report(node, json::k_plan_codes.value,
                    fmt::format("the pipeline of a plan may have at most {} stages, and this has {}",
                                k_most_stages, pipeline.stages.size()));
    return false;
  }
  std::int64_t total = 0;
  for (auto const& stage : pipeline.stages) {
    std::int64_t tiles = 1;
    for (auto const& dim : stage.grid)
      tiles = std::min(tiles, k_most_tiles + 1) * std::min(dim.extent, k_most_tiles + 1);
    total = std::min(total + std::min(tiles, k_most_tiles + 1), k_most_tiles + 1);
  }
  if (total <= k_most_tiles) return true;
  document.report(
      node, json::k_plan_codes.value,
      fmt::format("the pipeline of a plan may have at most {} tiles, and this has more", k_most_tiles), {},
      "choose larger tiles");
  return false;
}

/// 1 or 2, or 0 after a report.
int version_of(Document& document, ObjectReader& root) {
  auto const schema = root.string("schema");
  if (document.failed()) return 0;
  if (schema == json::k_plan_schema) return 2;
  if (schema == json::k_plan_schema_1) return 1;
  bool const plan = schema.rfind("tessera.plan/", 0) == 0;
  document.report(
      *root.find("schema"), k_other_version,
      plan ? fmt::format("this plan has version {}, and only versions 1 and 2 are known", schema.substr(13))
           : fmt::format("this is no plan: its schema is \"{}\"", schema),
      {}, plan ? "make the plan again with this version" : "plans begin with \"schema\": \"tessera.plan/2\"");
  return 0;
}

/// `first_version`: null, or where the stage's part of a launch goes in a file of version 1.
StagePlan read_stage(Document& document, Node const& node, std::size_t index, Pipeline const& pipeline,
                     json::Stage1* first_version) {
  ObjectReader reader(document, node, fmt::format("stage plan {}", index));
  StagePlan stage;
  if (auto const* item = reader.object("order")) {
    ObjectReader order(document, *item, "an order");
    stage.order.name = order.string("name");
    for (auto const& tile : order.array_or("table"))
      stage.order.table.push_back(static_cast<std::int32_t>(json::integer_item(document, tile, 0, k_int)));
    if (auto const* item_bands = order.object_or("bands")) {
      ObjectReader of(document, *item_bands, "\"bands\"");
      Bands bands;
      bands.rows = static_cast<int>(of.integer("rows", 0, k_int));
      bands.cluster_rows = static_cast<int>(of.integer_or("cluster_rows", 1, 1, 16));
      bands.cluster_columns = static_cast<int>(of.integer_or("cluster_columns", 1, 1, 16));
      of.finish();
      if (!stage.order.table.empty())
        document.report(*item_bands, json::k_plan_codes.value, "an order has a table or bands, not both");
      else if (!document.failed() && index < pipeline.stages.size()) {
        auto const name = std::exchange(stage.order, make_band_order(pipeline.stages[index], bands)).name;
        if (name != stage.order.name)
          document.report(*item_bands, k_order,
                          fmt::format("an order is called \"{}\", and its bands make \"{}\"",
                                      name.substr(0, 60), stage.order.name));
      }
    }
    order.finish();
  }
  stage.custom_order = reader.boolean_or("custom_order", true);
  if (first_version != nullptr) *first_version = {&node, reader.boolean_or("wait_kernel", false)};
  stage.reorder_loads = reader.boolean_or("reorder_loads", false);
  stage.plain_store = reader.boolean_or("plain_store", false);
  stage.persistent_blocks = static_cast<int>(reader.integer_or("persistent_blocks", 0, 0, k_int));
  stage.variant = reader.string_or("variant", "");
  stage.occupancy = static_cast<int>(reader.integer("occupancy", 1, 1 << 16));
  stage.waves = reader.number("waves", 0);
  reader.finish();
  return stage;
}

SemaphoreSet read_set(Document& document, Node const& node, Pipeline const& pipeline) {
  ObjectReader reader(document, node, "a semaphore set");
  SemaphoreSet set;
  set.producer = find_stage(pipeline, reader.string("producer"));
  set.policy = reader.string("policy");
  auto const* map = reader.find("map");
  if (map == nullptr)
    document.report(node, json::k_plan_codes.missing, "a semaphore set needs \"map\"");
  else if (set.producer >= 0) {
    auto const& producer = pipeline.stages[static_cast<std::size_t>(set.producer)];
    set.map = json::read_map(document, *map, producer.grid.size(), producer.name);
  }
  set.first = reader.integer("first", 0);
  set.count = reader.integer("count", 1);
  reader.finish();
  return set;
}

int read_set_index(Document& document, ObjectReader& reader, std::size_t sets) {
  auto const* node = reader.find("semaphore_set");
  if (node == nullptr || node->is(Node::Kind::null)) return -1;
  if (sets == 0) {
    document.report(*node, json::k_plan_codes.value,
                    "\"semaphore_set\" must be null: the plan has no semaphores");
    return -1;
  }
  return static_cast<int>(reader.integer("semaphore_set", 0, static_cast<std::int64_t>(sets) - 1));
}

void read_edges(Document& document, ObjectReader& root, Plan& plan) {
  for (auto const& item : root.array("reuse_edges")) {
    ObjectReader reader(document, item, "a reuse edge");
    ReuseEdge edge;
    edge.writer = find_stage(plan.pipeline, reader.string("writer"));
    edge.reader = find_stage(plan.pipeline, reader.string("reader"));
    edge.buffer = reader.string("buffer");
    edge.semaphore_set = read_set_index(document, reader, plan.semaphores.size());
    reader.finish();
    plan.reuse_edges.push_back(std::move(edge));
  }
}

void read_choice(Document& document, ObjectReader& root, Plan& plan) {
  plan.machine = root.string("machine");
  if (!document.failed() && !is_machine_name(plan.machine))
    document.report(*root.find("machine"), json::k_plan_codes.value,
                    "\"machine\" is empty, or has control characters in it");
  if (auto const* values = root.object_or("machine_values"))
    plan.machine_values = json::read_machine_values(document, *values, plan.machine);
  plan.predicted_us = root.number("predicted_us", 0);
  plan.stream_order_us = root.number("stream_order_us", 0);
  plan.bound_by = root.string_or("bound_by", "");
  plan.why = root.string_or("why", "");
  plan.proof = root.string_or("proof", "");
}

void read_alternatives(Document& document, ObjectReader& root, Plan& plan) {
  for (auto const& item : root.array_or("alternatives")) {
    ObjectReader reader(document, item, "an alternative");
    Alternative alternative;
    alternative.description = reader.string("description");
    alternative.predicted_us = reader.number_or("predicted_us", 0, 0);
    alternative.reason = reader.string("reason");
    reader.finish();
    plan.alternatives.push_back(std::move(alternative));
  }
}

}  // namespace

Expected<Plan> json::read_plan(Document& document, Node const& node) {
  ObjectReader root(document, node, "the plan");
  int const version = version_of(document, root);
  if (version == 0) return document.refusal();

  Plan plan;
  read_choice(document, root, plan);
  auto const* pipeline = root.object("pipeline");
  if (pipeline == nullptr) return document.refusal();
  ObjectReader pipeline_reader(document, *pipeline, "the pipeline");
  json::check_line(document, pipeline_reader, "name");
  plan.pipeline = json::read_pipeline(document, *pipeline, pipeline_reader);
  if (document.failed() || !small_enough(document, *pipeline, plan.pipeline)) return document.refusal();
  auto const checked = json::check_pipeline(document, *pipeline, plan.pipeline);
  if (!checked) return tl::make_unexpected(checked.error());

  std::vector<json::Stage1> stages_1;
  for (auto const& item : root.array("stages"))
    plan.stages.push_back(read_stage(document, item, plan.stages.size(), plan.pipeline,
                                     version == 1 ? &stages_1.emplace_back() : nullptr));
  for (auto const& item : root.array("semaphores"))
    plan.semaphores.push_back(read_set(document, item, plan.pipeline));
  for (auto const& item : root.array("dependences")) {
    ObjectReader reader(document, item, "a planned dependence");
    auto const index = static_cast<int>(plan.dependences.size());
    plan.dependences.push_back({index, read_set_index(document, reader, plan.semaphores.size())});
    reader.finish();
  }
  read_edges(document, root, plan);
  std::string mechanism;
  if (version == 1) {
    stages_1.resize(plan.pipeline.stages.size());
    json::read_launches_1(document, root, stages_1, checked->reuses(), plan);
  } else {
    mechanism = root.string_or("mechanism", "");
    json::read_launches(document, root, plan);
  }
  read_alternatives(document, root, plan);
  root.finish();
  if (document.failed()) return document.refusal();

  json::validate(document, node, plan, *checked);
  // For people, who must be able to believe it: it follows from the launches.
  if (!document.failed() && !mechanism.empty() && mechanism != mechanism_text(plan))
    document.report(*node.find("mechanism"), k_launches,
                    fmt::format("the mechanism is said to be \"{}\", and the launches are \"{}\"",
                                mechanism.substr(0, 80), mechanism_text(plan)),
                    {}, "leave \"mechanism\" out, or make the plan again");
  if (document.failed()) return document.refusal();
  return plan;
}

Expected<Plan> parse_plan(std::string_view text, std::string const& file) {
  auto document = Document::parse(text, file, json::k_plan_codes);
  if (!document) return tl::make_unexpected(std::move(document).error());
  return json::read_plan(*document, document->root());
}

}  // namespace tessera
