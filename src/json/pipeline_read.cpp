// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <limits>
#include <set>
#include <unordered_map>

#include "describe/limits.hpp"
#include "describe/names.hpp"
#include "describe/operator_check.hpp"
#include "diagnostic/nearest.hpp"
#include "json/pipeline_json.hpp"
#include "json/policy_json.hpp"
#include "json/workload_read.hpp"
#include "tessera/describe/parse_tile_expr.hpp"

namespace tessera::json {
namespace {

constexpr int k_most_int = std::numeric_limits<int>::max();

std::string quoted(char const* what, std::string const& name) {
  return fmt::format("{} \"{}\"", what, name.substr(0, 60));
}

SourceLine read_place(Document& document, Node const& node, ObjectReader& reader) {
  auto const* place = reader.object_or("where");
  if (place == nullptr) return document.at(node);
  ObjectReader from(document, *place, "\"where\"");
  SourceLine where{from.string("file"), static_cast<int>(from.integer("line", 0, k_most_int))};
  from.finish();
  return where;
}

void read_grid(Document& document, ObjectReader& reader, Stage& stage) {
  auto const* grid = reader.object("grid");
  if (grid == nullptr) return;
  ObjectReader dimensions(document, *grid, "the grid of " + quoted("stage", stage.name));
  for (auto const& name : grid->content->names) {
    stage.grid.push_back({name, dimensions.integer(name, 1, k_largest_size)});
    if (!is_dimension_name(name))
      document.report(*grid, "E0207", fmt::format("\"{}\" cannot name a dimension", name.substr(0, 60)), {},
                      name_hint(name, "use a C++ identifier other than all, clamp, floor, max, min and mod"));
  }
  if (stage.grid.empty() || stage.grid.size() > k_max_rank)
    document.report(*grid, document.codes().value,
                    fmt::format("the grid of {} has {} dimensions: 1 to {} are possible",
                                quoted("stage", stage.name), stage.grid.size(), k_max_rank));
}

Operand read_operand(Document& document, Node const& node, Stage const& stage) {
  ObjectReader reader(document, node, "an operand of " + quoted("stage", stage.name));
  Operand operand;
  operand.name = reader.string("name");
  operand.buffer = reader.string("buffer");
  operand.bytes_per_block = reader.number_or("bytes_per_block", 0, 0);
  operand.unique_bytes = reader.number_or("unique_bytes", 0, 0);
  operand.full_bytes = reader.number_or("full_bytes", 0, 0);
  operand.multicast = static_cast<int>(reader.integer_or("multicast", 1, 1, 64));
  reader.finish();
  if (!document.failed() && !is_identifier(operand.name))
    document.report(node, "E0207",
                    fmt::format("\"{}\" cannot name an operand of {}", operand.name.substr(0, 60),
                                quoted("stage", stage.name)),
                    {}, name_hint(operand.name));
  return operand;
}

void read_inability(Document& document, Node const& node, Stage& stage) {
  std::vector<std::string> words;
  for (auto const& [word, member] : abilities()) {
    if (node.text() == word) {
      stage.can.*member = false;
      return;
    }
    words.emplace_back(word);
  }
  document.report(node, document.codes().value,
                  fmt::format("\"{}\" is nothing that {} could do", node.text().substr(0, 60),
                              quoted("stage", stage.name)),
                  {"known: " + list_of(words)}, did_you_mean(node.text(), words));
}

Stage read_stage(Document& document, Node const& node) {
  ObjectReader reader(document, node, "a stage");
  Stage stage;
  stage.name = reader.string("name");
  reader.rename(quoted("stage", stage.name));
  read_grid(document, reader, stage);
  stage.splits = static_cast<int>(reader.integer_or("splits", 1, 1, k_most_int));
  stage.output = reader.string_or("output", stage.name);
  for (auto const& operand : reader.array_or("operands"))
    stage.operands.push_back(read_operand(document, operand, stage));
  stage.kernel = reader.string_or("kernel", "");
  auto const activations = epilogues().words;
  if (reader.choice_or("activation", Epilogue::none, activations, epilogues().values) != Epilogue::none)
    stage.activation = reader.find("activation")->text();
  stage.last_split_posts = reader.boolean_or("last_split_posts", false);
  stage.efficiency = reader.number_or("efficiency", 0, 0, 1);
  stage.fixed_ns = reader.number_or("fixed_ns", 0, 0, 1e9);
  stage.cluster_rows = static_cast<int>(reader.integer_or("cluster_rows", 1, 1, 16));
  stage.cluster_columns = static_cast<int>(reader.integer_or("cluster_columns", 1, 1, 16));
  for (auto const& item : reader.array_or("cannot")) read_inability(document, item, stage);
  for (auto const& item : reader.array_or("band_heights"))
    stage.can.heights.push_back(static_cast<int>(integer_item(document, item, 1, k_most_int)));
  if (auto const* held = reader.object_or("resources"); held != nullptr) {
    ObjectReader resources(document, *held, "the resources of " + quoted("stage", stage.name));
    stage.resources.threads = static_cast<int>(resources.integer_or("threads", 256, 1, 1024));
    stage.resources.registers_per_thread =
        static_cast<int>(resources.integer_or("registers_per_thread", 64, 1, 255));
    stage.resources.shared_bytes = static_cast<int>(resources.integer_or("shared_bytes", 0, 0, 1 << 24));
    resources.finish();
  }
  stage.flops_per_block = reader.number_or("flops_per_block", 0, 0);
  stage.store_bytes_per_block = reader.number_or("store_bytes_per_block", 0, 0);
  stage.k_steps = static_cast<int>(reader.integer_or("k_steps", 1, 1, k_most_int));
  stage.pipeline_stages =
      static_cast<int>(reader.integer_or("pipeline_stages", 2, 1, k_most_pipeline_stages));
  if (auto const* measured = reader.object_or("block_time"); measured != nullptr) {
    ObjectReader time(document, *measured, "the block time of " + quoted("stage", stage.name));
    stage.block_time.alone_ns = time.number("alone_ns", 0);
    stage.block_time.share_ns = time.number("share_ns", 0);
    stage.block_time.waits_ns = time.number_or("waits_ns", 0, 0);
    time.finish();
  }
  stage.where = read_place(document, node, reader);
  reader.finish();
  if (!document.failed() && !is_identifier(stage.name))
    document.report(node, "E0207", fmt::format("\"{}\" cannot name a stage", stage.name.substr(0, 60)), {},
                    name_hint(stage.name));
  return stage;
}

void read_buffers(Document& document, ObjectReader& reader, Pipeline& pipeline) {
  auto const* buffers = reader.object_or("buffers");
  if (buffers == nullptr) return;
  for (auto const& name : buffers->content->names) {
    auto const& node = *buffers->find(name);
    ObjectReader of(document, node, quoted("buffer", name));
    Buffer buffer{name,
                  of.integer("rows", 1, k_largest_size),
                  of.integer("columns", 1, k_largest_size),
                  of.integer_or("batch", 1, 1, k_largest_size),
                  {}};
    auto const type = of.choice_or("type", -1, element_types().words, std::vector<int>{0, 1, 2, 3, 4});
    if (type >= 0) buffer.type = element_types().words[static_cast<std::size_t>(type)];
    of.finish();
    pipeline.buffers.push_back(std::move(buffer));
  }
}

/// Thousands of dependences name one of thousands of stages.
using StageIndex = std::unordered_map<std::string, int>;

StageIndex index_of(Pipeline const& pipeline) {
  StageIndex index;
  for (auto const& stage : pipeline.stages) index.emplace(stage.name, static_cast<int>(index.size()));
  return index;
}

/// Index of the stage that a member names, or -1 after a report.
int stage_named(Document& document, ObjectReader& reader, char const* member, Pipeline const& pipeline,
                StageIndex const& stages) {
  auto const name = reader.string(member);
  if (auto const found = stages.find(name); found != stages.end()) return found->second;
  if (document.failed()) return -1;
  std::vector<std::string> names;
  for (auto const& stage : pipeline.stages) names.push_back(stage.name);
  document.report(*reader.find(member), "E0208",
                  fmt::format("\"{}\" of a dependence names no stage: \"{}\"", member, name.substr(0, 60)),
                  {"stages: " + (names.empty() ? "none" : list_of(names))}, did_you_mean(name, names));
  return -1;
}

TileRange read_range(Document& document, Node const& node, Stage const& consumer, GridDim const& dim) {
  if (node.is(Node::Kind::integer)) {
    if (node.integer >= -k_largest_size && node.integer <= k_largest_size)
      return {TileExpr::constant(node.integer), TileExpr::constant(node.integer + 1), false};
  } else if (node.is(Node::Kind::string)) {
    auto const names = consumer.dimension_names();
    auto range = parse_tile_range(node.text(), names, dim.extent);
    if (range) return *range;
    auto const& problem = range.error().front();
    document.report(node, "E0209", problem.message, problem.notes, problem.suggestion);
    return {};
  }
  document.report(
      node, document.codes().value,
      "a coordinate must be a tile number or an expression such as \"x + 1\", \"0 : 4\" or \"all\"");
  return {};
}

Access read_access(Document& document, Node const& node, Stage const& consumer, Stage const& producer) {
  Access access;
  if (!node.is(Node::Kind::array)) {
    document.report(
        node, document.codes().value,
        fmt::format("an access must be an array with a coordinate for each dimension of {}", producer.name));
    return access;
  }
  if (node.items().size() != producer.grid.size()) {
    document.report(node, "E0208",
                    fmt::format("{} has {} dimensions, but the access has {}", producer.name,
                                producer.grid.size(), node.items().size()));
    return access;
  }
  for (std::size_t i = 0; i < producer.grid.size(); ++i)
    access.ranges.push_back(read_range(document, node.items()[i], consumer, producer.grid[i]));
  return access;
}

/// E0112: one takes some 2 KiB, and work for each tile that reads it.
bool few_enough(Document& document, Node const& dependence, std::size_t count, std::size_t& all) {
  constexpr std::size_t k_most = 1024, k_most_of_all = 1 << 16;
  all += count;
  if (count <= k_most && all <= k_most_of_all) return true;
  document.report(dependence, "E0112",
                  count > k_most
                      ? fmt::format("a dependence has {} accesses; at most {} are read", count, k_most)
                      : fmt::format("dependences have more than {} accesses together", k_most_of_all),
                  {}, "describe the reads with fewer, larger ranges");
  return false;
}

/// `accesses_so_far`: of the dependences before. `distance`: where the iterations that it reaches back go;
/// null: it is no part of a loop.
Dependence read_dependence(Document& document, Node const& node, Pipeline const& pipeline,
                           StageIndex const& stages, std::size_t& accesses_so_far, int* distance = nullptr) {
  ObjectReader reader(document, node, "a dependence");
  if (distance != nullptr)
    *distance = static_cast<int>(reader.integer_or("distance", 0, 0, k_most_int));
  else if (auto const* member = reader.find("distance"))
    document.report(*member, document.codes().unknown, "unknown member \"distance\" in a dependence",
                    {"it counts iterations, and nothing says that this pipeline is repeated"},
                    "a workload is a loop with \"loop\": {} beside \"stages\"");
  Dependence dependence;
  dependence.consumer = stage_named(document, reader, "consumer", pipeline, stages);
  dependence.producer = stage_named(document, reader, "producer", pipeline, stages);
  dependence.operand = reader.string("operand");
  dependence.on_complete =
      reader.choice_or("on_complete", OnComplete::release_waiters, completions().words, completions().values);
  auto const& accesses = reader.array("accesses");
  auto const* policy = reader.object_or("policy");
  dependence.where = read_place(document, node, reader);
  reader.finish();
  if (policy != nullptr && dependence.producer >= 0) {
    auto const& producer = pipeline.stages[static_cast<std::size_t>(dependence.producer)];
    dependence.policy = read_policy(document, *policy, producer.grid.size(), producer.name);
  }
  if (dependence.consumer < 0 || dependence.producer < 0) return dependence;
  if (!few_enough(document, node, accesses.size(), accesses_so_far)) return dependence;
  for (auto const& access : accesses)
    dependence.accesses.push_back(
        read_access(document, access, pipeline.stages[static_cast<std::size_t>(dependence.consumer)],
                    pipeline.stages[static_cast<std::size_t>(dependence.producer)]));
  return dependence;
}

/// Everything but the dependences.
Pipeline read_stages(Document& document, Node const& node, ObjectReader& reader) {
  Pipeline pipeline;
  pipeline.name = reader.string("name");
  pipeline.where = read_place(document, node, reader);
  std::set<std::string> names;
  for (auto const& item : reader.array("stages")) {
    auto stage = read_stage(document, item);
    if (!names.insert(stage.name).second)
      document.report(item, "E0207", fmt::format("two stages are named \"{}\"", stage.name.substr(0, 60)));
    pipeline.stages.push_back(std::move(stage));
  }
  read_buffers(document, reader, pipeline);
  return pipeline;
}

std::vector<BufferCopies> read_copies(Document& document, Node const& node) {
  std::vector<BufferCopies> result;
  ObjectReader reader(document, node, "the loop");
  if (auto const* copies = reader.object_or("copies")) {
    ObjectReader of(document, *copies, "the copies of buffers");
    for (auto const& name : copies->content->names)
      result.push_back({name, static_cast<int>(of.integer(name, 1, k_most_int))});
  }
  for (auto const& item : reader.array_or("each_iteration")) {
    if (item.is(Node::Kind::string))
      result.push_back({item.text(), BufferCopies::each_iteration});
    else
      document.report(item, document.codes().value, "\"each_iteration\" has names of buffers");
  }
  reader.finish();
  return result;
}

}  // namespace

Pipeline read_pipeline(Document& document, Node const& node, ObjectReader& reader) {
  auto pipeline = read_stages(document, node, reader);
  auto const& dependences = reader.array_or("dependences");
  reader.finish();
  if (document.failed()) return pipeline;  // expressions need the grids
  auto const stages = index_of(pipeline);
  std::size_t accesses = 0;
  for (auto const& item : dependences)
    pipeline.dependences.push_back(read_dependence(document, item, pipeline, stages, accesses));
  return pipeline;
}

Loop read_loop(Document& document, Node const& node, ObjectReader& reader) {
  Loop loop;
  loop.body = read_stages(document, node, reader);
  auto const& dependences = reader.array_or("dependences");
  if (auto const* parts = reader.object("loop")) loop.copies = read_copies(document, *parts);
  reader.finish();
  if (document.failed()) return loop;
  auto const stages = index_of(loop.body);
  std::size_t accesses = 0;
  for (auto const& item : dependences) {
    int distance = 0;
    auto dependence = read_dependence(document, item, loop.body, stages, accesses, &distance);
    if (distance == 0)
      loop.body.dependences.push_back(std::move(dependence));
    else
      loop.carried.push_back({std::move(dependence), distance});
  }
  return loop;
}

}  // namespace tessera::json
