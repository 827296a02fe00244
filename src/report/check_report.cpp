// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "report/facts.hpp"
#include "report/text.hpp"
#include "tessera/report/json_text.hpp"
#include "tessera/report/report.hpp"

namespace tessera {
namespace {

using namespace report;

std::string producers(DependenceFacts const& facts) {
  return facts.min_producers == facts.max_producers
             ? std::to_string(facts.min_producers)
             : fmt::format("{}..{}", facts.min_producers, facts.max_producers);
}

Stage const& stage_at(Pipeline const& pipeline, int index) {
  return pipeline.stages[static_cast<std::size_t>(index)];
}

void write(JsonWriter& json, Diagnostic const& diagnostic) {
  json.begin_object();
  json.member("code", diagnostic.code);
  json.member("severity", diagnostic.severity == Severity::error ? "error" : "warning");
  json.member("file", diagnostic.where.file).member("line", diagnostic.where.line);
  json.member("message", diagnostic.message);
  json.key("notes").begin_array();
  for (auto const& note : diagnostic.notes) json.value(note);
  json.end_array().member("suggestion", diagnostic.suggestion).end_object();
}

void write(JsonWriter& json, Diagnostics const& diagnostics) {
  json.begin_array();
  for (auto const& diagnostic : diagnostics) write(json, diagnostic);
  json.end_array();
}

void write_stages(JsonWriter& json, Pipeline const& pipeline) {
  json.key("stages").begin_array();
  for (auto const& stage : pipeline.stages) {
    json.begin_object().member("name", stage.name).key("grid").begin_object();
    for (auto const& dim : stage.grid) json.member(dim.name, dim.extent);
    json.end_object().member("splits", stage.splits).member("tiles", stage.tiles()).end_object();
  }
  json.end_array();
}

/// The iterations of a loop reuse each other's buffers, all in the same way: the first is shown for all that
/// have the same stages and the same answer.
std::string reuse_text(CheckedPipeline const& checked) {
  auto const& pipeline = checked.pipeline();
  auto const& reuses = checked.reuses();
  int const of_iteration = checked.iteration_stages();
  std::map<std::tuple<int, int, bool>, std::size_t> row_of;
  std::vector<std::pair<BufferReuse const*, std::int64_t>> rows;  // with the number of others like it
  for (auto const& reuse : reuses) {
    if (of_iteration > 0) {
      auto const [known, is_new] = row_of.try_emplace(
          {reuse.writer % of_iteration, reuse.reader % of_iteration, reuse.covered}, rows.size());
      if (!is_new) {
        ++rows[known->second].second;
        continue;
      }
    }
    rows.push_back({&reuse, 0});
  }
  std::string text = rows.empty() ? "" : "\n  buffer reuse\n";
  for (auto const& [reuse, others] : rows) {
    auto const& writer = stage_at(pipeline, reuse->writer);
    auto const& reader = stage_at(pipeline, reuse->reader);
    auto line =
        fmt::format("{} overwrites {}, which {} uses: {}", writer.name, reuse->buffer, reader.name,
                    reuse->covered ? "covered by the dependences"
                                   : fmt::format("{} does not wait for {}; an early start adds a wait",
                                                 tile_name(writer, reuse->writer_tile),
                                                 tile_name(reader, reuse->reader_tile)));
    if (others > 0)
      line += fmt::format("; the same for {} of later iterations", plural(others, "other pair"));
    text += labelled("", line, 2, 1);
  }
  return text;
}

}  // namespace

std::string check_text(CheckedPipeline const& checked) {
  auto const& pipeline = checked.pipeline();
  std::string text =
      fmt::format("{}: fine; {}, {}\n\n", pipeline.name,
                  plural(static_cast<std::int64_t>(pipeline.stages.size()), "stage"),
                  plural(static_cast<std::int64_t>(pipeline.dependences.size()), "dependence"));
  std::vector<std::vector<std::string>> stages{{"stage", "tiles", "blocks", "output", "kernel"}};
  for (auto const& stage : pipeline.stages)
    stages.push_back({stage.name, grid_text(stage), std::to_string(stage.blocks()), stage.output,
                      stage.kernel.empty() ? "-" : stage.kernel});
  text += table(stages, {2}, 2);
  if (!pipeline.dependences.empty()) {
    std::vector<std::vector<std::string>> edges{
        {"dependence", "operand", "tile pairs", "producers per tile", "never read"}};
    for (std::size_t d = 0; d < pipeline.dependences.size(); ++d) {
      auto const& edge = pipeline.dependences[d];
      auto const& facts = checked.facts()[d];
      edges.push_back(
          {stage_at(pipeline, edge.producer).name + " -> " + stage_at(pipeline, edge.consumer).name,
           edge.operand, std::to_string(facts.pairs), producers(facts),
           std::to_string(facts.unread_producers)});
    }
    text += '\n' + table(edges, {2, 3, 4}, 2);
  }
  text += reuse_text(checked);
  if (!checked.warnings().empty()) text += '\n' + to_text(checked.warnings()) + '\n';
  return text;
}

std::string check_json(CheckedPipeline const& checked) {
  auto const& pipeline = checked.pipeline();
  JsonWriter json;
  json.begin_object()
      .member("schema", "tessera.check/1")
      .member("pipeline", pipeline.name)
      .member("ok", true);
  write_stages(json, pipeline);
  json.key("dependences").begin_array();
  for (std::size_t d = 0; d < pipeline.dependences.size(); ++d) {
    auto const& edge = pipeline.dependences[d];
    auto const& facts = checked.facts()[d];
    json.begin_object();
    json.member("producer", stage_at(pipeline, edge.producer).name);
    json.member("consumer", stage_at(pipeline, edge.consumer).name);
    json.member("operand", edge.operand).member("pairs", facts.pairs);
    json.member("min_producers", facts.min_producers).member("max_producers", facts.max_producers);
    json.member("unread_producers", facts.unread_producers).end_object();
  }
  json.end_array().key("buffer_reuse").begin_array();
  for (auto const& reuse : checked.reuses()) {
    json.begin_object().member("buffer", reuse.buffer);
    json.member("writer", stage_at(pipeline, reuse.writer).name)
        .member("reader", stage_at(pipeline, reuse.reader).name);
    json.member("covered", reuse.covered);
    if (!reuse.covered)
      json.member("writer_tile", reuse.writer_tile).member("reader_tile", reuse.reader_tile);
    json.end_object();
  }
  json.end_array().key("warnings");
  write(json, checked.warnings());
  return json.end_object().text() + '\n';
}

std::string print_diagnostics(Diagnostics const& diagnostics) {
  JsonWriter json;
  json.begin_object().member("schema", "tessera.diagnostics/1").key("diagnostics");
  write(json, diagnostics);
  return json.end_object().text() + '\n';
}

}  // namespace tessera
