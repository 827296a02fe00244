// SPDX-License-Identifier: Apache-2.0
#include "tessera/describe/dsl.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "describe/names.hpp"
#include "describe/operands.hpp"
#include "describe/operator_check.hpp"

namespace tessera {
namespace {

SourceLine line_of(std::source_location const& place) {
  return {place.file_name(), static_cast<int>(place.line())};
}

}  // namespace

Stage& StageHandle::stage() const { return builder_->pipeline_.stages[static_cast<std::size_t>(index_)]; }

StageHandle& StageHandle::splits(int factor) {
  stage().splits = factor;
  return *this;
}
StageHandle& StageHandle::output(std::string buffer) {
  stage().output = std::move(buffer);
  return *this;
}
StageHandle& StageHandle::reads(std::string operand, std::string buffer, double bytes_per_block,
                                double unique_bytes) {
  stage().operands.push_back({std::move(operand), std::move(buffer), bytes_per_block, unique_bytes});
  return *this;
}
StageHandle& StageHandle::kernel(std::string name) {
  stage().kernel = std::move(name);
  return *this;
}
StageHandle& StageHandle::resources(Resources const& held) {
  stage().resources = held;
  return *this;
}
StageHandle& StageHandle::cost(StageCost const& cost) {
  stage().flops_per_block = cost.flops_per_block;
  stage().store_bytes_per_block = cost.store_bytes_per_block;
  stage().k_steps = cost.k_steps;
  stage().pipeline_stages = cost.pipeline_stages;
  return *this;
}

PipelineBuilder::PipelineBuilder(std::string name, std::source_location place)
    : PipelineBuilder(std::move(name), line_of(place), HostLanguage::cpp) {}

PipelineBuilder::PipelineBuilder(std::string name, SourceLine where, HostLanguage language)
    : language_(language) {
  pipeline_.name = std::move(name);
  pipeline_.where = std::move(where);
}

void PipelineBuilder::report(char const* code, SourceLine const& where, std::string message,
                             std::vector<std::string> notes, std::string suggestion) {
  problems_.push_back(
      {code, Severity::error, where, std::move(message), std::move(notes), std::move(suggestion)});
}

Dim PipelineBuilder::dim(std::string_view name, std::source_location place) {
  return dim(name, line_of(place));
}

Dim PipelineBuilder::dim(std::string_view name, SourceLine where) {
  if (!is_dimension_name(name))
    report("E0131", where, fmt::format("\"{}\" cannot name a dimension", name.substr(0, 60)), {},
           name_hint(name, "use a C++ identifier other than all, clamp, floor, max, min and mod"));
  if (std::find(dim_names_.begin(), dim_names_.end(), name) != dim_names_.end())
    report("E0131", where, fmt::format("dimension \"{}\" is declared twice", name), {},
           "stages may share a dimension: declare it once");
  dim_names_.emplace_back(name);
  return Dim(this, TileExpr::dimension(static_cast<int>(dim_names_.size()) - 1));
}

StageHandle PipelineBuilder::stage(std::string name, std::initializer_list<DimExtent> grid,
                                   std::source_location place) {
  return this->stage(std::move(name), std::vector<DimExtent>(grid), line_of(place));
}

StageHandle PipelineBuilder::stage(std::string name, std::vector<DimExtent> const& grid, SourceLine where) {
  Stage stage;
  stage.where = std::move(where);
  stage.name = std::move(name);
  stage.output = stage.name;
  if (!is_identifier(stage.name))
    report("E0131", stage.where, fmt::format("\"{}\" cannot name a stage", stage.name.substr(0, 60)), {},
           name_hint(stage.name));
  if (auto const other = find_stage(pipeline_, stage.name); other >= 0)
    report("E0131", stage.where, fmt::format("two stages are named {}", stage.name),
           {fmt::format("the first is at line {}",
                        pipeline_.stages[static_cast<std::size_t>(other)].where.line)});
  if (grid.size() < 1 || grid.size() > k_max_rank)
    report("E0130", stage.where,
           fmt::format("{} has {} dimensions: a grid has 1 to {}", stage.name, grid.size(), k_max_rank));

  std::vector<int> dims;
  for (auto const& [owner, dim, extent] : grid) {
    if (owner != this) {
      report("E0134", stage.where,
             fmt::format("the grid of {} uses a dimension that is not one of this pipeline's", stage.name),
             {},
             language_ == HostLanguage::python
                 ? "write {x: 24, y: 4} with the dimensions that dims() returned"
                 : "write {x = 24, y = 4} with the dimensions that dims() returned");
      continue;
    }
    auto const& dim_name = dim_names_[static_cast<std::size_t>(dim)];
    if (std::find(dims.begin(), dims.end(), dim) != dims.end())
      report("E0130", stage.where,
             fmt::format("the grid of {} has dimension {} twice", stage.name, dim_name));
    if (extent < 1 || extent > k_largest_size)
      report("E0130", stage.where,
             fmt::format("{} has {} tiles along {}: between 1 and {} are possible", stage.name, extent,
                         dim_name, k_largest_size));
    dims.push_back(dim);
    stage.grid.push_back({dim_name, extent});
  }
  pipeline_.stages.push_back(std::move(stage));
  stage_dims_.push_back(std::move(dims));
  return {this, static_cast<int>(pipeline_.stages.size()) - 1};
}

void PipelineBuilder::copies(std::string buffer, int count) { copies_.push_back({std::move(buffer), count}); }

Expected<Pipeline> PipelineBuilder::build() const {
  auto loop = build_loop();
  if (!loop) return tl::make_unexpected(loop.error());
  if (loop->carried.empty() && copies_.empty()) return std::move(loop->body);
  return refuse(
      {"E0139",
       Severity::error,
       loop->carried.empty() ? pipeline_.where : loop->carried.front().dependence.where,
       fmt::format("\"{}\" is a loop: {}", pipeline_.name,
                   loop->carried.empty() ? "buffers have copies" : "an iteration reads an earlier one"),
       {},
       "use build_loop(), and unroll() or check() for a number of iterations"});
}

Expected<Loop> PipelineBuilder::build_loop() const {
  auto problems = problems_;
  auto pipeline = pipeline_;
  if (pipeline.stages.empty())
    problems.push_back({"E0130",
                        Severity::error,
                        pipeline.where,
                        fmt::format("pipeline \"{}\" has no stages", pipeline.name),
                        {},
                        {}});
  connect_operands(pipeline, problems);
  check_stages(pipeline, problems);
  if (!problems.empty()) return tl::make_unexpected(std::move(problems));
  Loop loop;
  loop.copies = copies_;
  auto const all = std::move(pipeline.dependences);
  pipeline.dependences.clear();
  for (std::size_t i = 0; i < all.size(); ++i)
    if (distances_[i] > 0)
      loop.carried.push_back({all[i], distances_[i]});
    else
      pipeline.dependences.push_back(all[i]);
  loop.body = std::move(pipeline);
  return loop;
}

}  // namespace tessera
