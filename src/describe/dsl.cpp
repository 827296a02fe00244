// SPDX-License-Identifier: Apache-2.0
#include "tessera/describe/dsl.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "describe/names.hpp"
#include "describe/operator_check.hpp"
#include "diagnostic/nearest.hpp"

namespace tessera {
namespace {

SourceLine line_of(std::source_location const& place) {
  return {place.file_name(), static_cast<int>(place.line())};
}

std::string shown(Stage const& stage) {
  return fmt::format("{}({})", stage.name, fmt::join(stage.dimension_names(), ", "));
}

/// An expression over the builder's dimensions, rewritten over the consumer's. Empty if a dimension is none
/// of the consumer's; `missing` then names it.
std::optional<TileExpr> renumbered(TileExpr const& expr, std::vector<int> const& position_of, int& missing) {
  if (expr.op == TileExpr::Op::dimension) {
    auto const position = position_of[static_cast<std::size_t>(expr.value)];
    if (position >= 0) return TileExpr::dimension(position);
    missing = static_cast<int>(expr.value);
    return std::nullopt;
  }
  auto result = expr;
  for (auto& argument : result.arguments) {
    auto inner = renumbered(argument, position_of, missing);
    if (!inner) return std::nullopt;
    argument = std::move(*inner);
  }
  return result;
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

DependenceHandle& DependenceHandle::through(std::string operand) {
  for (std::size_t i = first_; i < first_ + count_; ++i) builder_->pipeline_.dependences[i].operand = operand;
  return *this;
}
DependenceHandle& DependenceHandle::policy(NamedPolicy const& wanted) {
  for (std::size_t i = first_; i < first_ + count_; ++i) builder_->pipeline_.dependences[i].policy = wanted;
  return *this;
}

DependenceHandle& DependenceHandle::policy(std::string name,
                                           std::function<long long(Tile const&)> const& semaphore_of) {
  for (std::size_t i = first_; i < first_ + count_; ++i) {
    auto& dependence = builder_->pipeline_.dependences[i];
    auto const grid = builder_->pipeline_.stages[static_cast<std::size_t>(dependence.producer)].tile_grid();
    dependence.policy = NamedPolicy{name, table_map(grid, semaphore_of)};
  }
  return *this;
}

DependenceHandle& DependenceHandle::on_complete(OnComplete action) {
  for (std::size_t i = first_; i < first_ + count_; ++i)
    builder_->pipeline_.dependences[i].on_complete = action;
  return *this;
}

PipelineBuilder::PipelineBuilder(std::string name, std::source_location place) {
  pipeline_.name = std::move(name);
  pipeline_.where = line_of(place);
}

void PipelineBuilder::report(char const* code, SourceLine const& where, std::string message,
                             std::vector<std::string> notes, std::string suggestion) {
  problems_.push_back(
      {code, Severity::error, where, std::move(message), std::move(notes), std::move(suggestion)});
}

Dim PipelineBuilder::dim(std::string_view name, std::source_location place) {
  auto const where = line_of(place);
  if (!is_dimension_name(name))
    report("E0131", where, fmt::format("\"{}\" cannot name a dimension", name.substr(0, 60)), {},
           "use a C++ identifier other than all, clamp, floor, max, min and mod");
  if (std::find(dim_names_.begin(), dim_names_.end(), name) != dim_names_.end())
    report("E0131", where, fmt::format("dimension \"{}\" is declared twice", name), {},
           "stages may share a dimension: declare it once");
  dim_names_.emplace_back(name);
  return Dim(this, TileExpr::dimension(static_cast<int>(dim_names_.size()) - 1));
}

StageHandle PipelineBuilder::stage(std::string name, std::initializer_list<DimExtent> grid,
                                   std::source_location place) {
  Stage stage;
  stage.where = line_of(place);
  stage.name = std::move(name);
  stage.output = stage.name;
  if (!is_identifier(stage.name))
    report("E0131", stage.where, fmt::format("\"{}\" cannot name a stage", stage.name.substr(0, 60)), {},
           "use a C++ identifier");
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
             {}, "write {x = 24, y = 4} with the dimensions that dims() returned");
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

bool PipelineBuilder::check_rank(TileRef const& tile, SourceLine const& where) {
  if (tile.builder != this) {
    report("E0136", where, "a dependence names a stage of another pipeline");
    return false;
  }
  auto const& stage = pipeline_.stages[static_cast<std::size_t>(tile.stage)];
  if (tile.coordinates.size() == stage.grid.size()) return true;
  report("E0132", where,
         fmt::format("{} has {} dimension{}, but {} coordinate{} given", stage.name, stage.grid.size(),
                     stage.grid.size() == 1 ? "" : "s", tile.coordinates.size(),
                     tile.coordinates.size() == 1 ? " is" : "s are"),
         {}, "write " + shown(stage));
  return false;
}

bool PipelineBuilder::bind(ConsumerTile const& consumer, std::vector<int>& position_of) {
  auto const& stage = pipeline_.stages[static_cast<std::size_t>(consumer.tile.stage)];
  position_of.assign(dim_names_.size(), -1);
  for (std::size_t i = 0; i < consumer.tile.coordinates.size(); ++i) {
    auto const* dim = std::get_if<Dim>(&consumer.tile.coordinates[i]);
    bool const plain =
        dim != nullptr && dim->owner_ == this && !dim->problem_ && dim->expr_.op == TileExpr::Op::dimension;
    if (!plain) {
      report("E0133", consumer.where,
             fmt::format("coordinate {} of the consumer {} is not a plain dimension of this pipeline", i + 1,
                         stage.name),
             {"a dependence says what any one tile of the consumer reads"},
             fmt::format("write {}, and expressions in the producer", shown(stage)));
      return false;
    }
    auto& position = position_of[static_cast<std::size_t>(dim->expr_.value)];
    if (position >= 0) {
      report("E0133", consumer.where,
             fmt::format("the consumer {} has dimension {} twice", stage.name,
                         dim_names_[static_cast<std::size_t>(dim->expr_.value)]),
             {}, "write " + shown(stage));
      return false;
    }
    position = static_cast<int>(i);
  }
  return true;
}

bool PipelineBuilder::translate(Dim const& dim, std::vector<int> const& position_of,
                                ConsumerTile const& consumer, TileExpr& out) {
  if (dim.problem_) {
    report(dim.problem_->code.c_str(), consumer.where, dim.problem_->message);
    return false;
  }
  if (dim.owner_ != nullptr && dim.owner_ != this) {
    report("E0134", consumer.where, "a dependence uses a dimension of another pipeline");
    return false;
  }
  int missing = 0;
  auto result = renumbered(dim.expr_, position_of, missing);
  if (!result) {
    auto const& stage = pipeline_.stages[static_cast<std::size_t>(consumer.tile.stage)];
    report("E0134", consumer.where,
           fmt::format("dimension {} is not one of the consumer's, {}",
                       dim_names_[static_cast<std::size_t>(missing)], shown(stage)),
           {}, "use range() or all() for producer tiles that no consumer dimension selects");
    return false;
  }
  out = std::move(*result);
  return true;
}

bool PipelineBuilder::to_access(ConsumerTile const& consumer, TileRef const& producer,
                                std::vector<int> const& position_of, Access& access) {
  auto const& stage = pipeline_.stages[static_cast<std::size_t>(producer.stage)];
  auto const& dims = stage_dims_[static_cast<std::size_t>(producer.stage)];
  for (std::size_t i = 0; i < producer.coordinates.size(); ++i) {
    TileRange range;
    if (auto const* every = std::get_if<WholeDimension>(&producer.coordinates[i])) {
      bool const matches = every->dim.owner_ == this && every->dim.expr_.op == TileExpr::Op::dimension &&
                           i < dims.size() && every->dim.expr_.value == dims[i];
      if (!matches) {
        report("E0134", consumer.where,
               fmt::format("all() stands for dimension {} of {}, but names another", stage.grid[i].name,
                           stage.name),
               {}, fmt::format("write all({})", stage.grid[i].name));
        return false;
      }
      range = {TileExpr::constant(0), TileExpr::constant(stage.grid[i].extent), false};
    } else if (auto const* part = std::get_if<Range>(&producer.coordinates[i])) {
      range.clamp = part->clamp;
      if (!translate(part->begin, position_of, consumer, range.begin) ||
          !translate(part->end, position_of, consumer, range.end))
        return false;
    } else {
      if (!translate(std::get<Dim>(producer.coordinates[i]), position_of, consumer, range.begin))
        return false;
      range.end = range.begin + TileExpr::constant(1);
    }
    access.ranges.push_back(std::move(range));
  }
  return true;
}

DependenceHandle PipelineBuilder::add_dependence(ConsumerTile const& consumer,
                                                 std::vector<TileRef> const& producers) {
  auto const first = pipeline_.dependences.size();
  DependenceHandle const none(this, first, 0);
  if (!check_rank(consumer.tile, consumer.where)) return none;
  std::vector<int> position_of;
  if (!bind(consumer, position_of)) return none;
  auto const& consumer_name = pipeline_.stages[static_cast<std::size_t>(consumer.tile.stage)].name;
  if (producers.empty())
    report("E0136", consumer.where, fmt::format("{} depends on nothing here", consumer_name));

  for (auto const& producer : producers) {
    if (!check_rank(producer, consumer.where)) continue;
    auto const& name = pipeline_.stages[static_cast<std::size_t>(producer.stage)].name;
    if (producer.stage >= consumer.tile.stage) {
      report("E0136", consumer.where,
             producer.stage == consumer.tile.stage
                 ? fmt::format("{} cannot depend on itself", name)
                 : fmt::format("{} cannot wait for {}, which is declared after it", consumer_name, name),
             {"stages run in the order in which they are declared; the consumer comes first in depends()"},
             producer.stage == consumer.tile.stage
                 ? ""
                 : fmt::format("did you mean depends({}(...), {}(...))?", name, consumer_name));
      continue;
    }
    Access access;
    if (!to_access(consumer, producer, position_of, access)) continue;
    // Several tiles of one producer are one dependence.
    auto same = std::find_if(pipeline_.dependences.begin() + static_cast<std::ptrdiff_t>(first),
                             pipeline_.dependences.end(),
                             [&](Dependence const& d) { return d.producer == producer.stage; });
    if (same == pipeline_.dependences.end()) {
      pipeline_.dependences.push_back(
          {consumer.tile.stage, producer.stage, "", {}, OnComplete::release_waiters, consumer.where, {}});
      same = pipeline_.dependences.end() - 1;
    }
    same->accesses.push_back(std::move(access));
  }
  return {this, first, pipeline_.dependences.size() - first};
}

void PipelineBuilder::check_operands(Pipeline& pipeline, Diagnostics& problems) const {
  auto const add = [&](SourceLine const& where, std::string message, std::string hint = {}) {
    problems.push_back({"E0137", Severity::error, where, std::move(message), {}, std::move(hint)});
  };
  for (auto& dependence : pipeline.dependences) {
    auto& consumer = pipeline.stages[static_cast<std::size_t>(dependence.consumer)];
    auto const& buffer = pipeline.stages[static_cast<std::size_t>(dependence.producer)].output;
    auto& operands = consumer.operands;
    auto const find = [&](auto const& matches) {
      return std::find_if(operands.begin(), operands.end(), matches);
    };
    if (dependence.operand.empty()) {
      auto const same_buffer = find([&](Operand const& o) { return o.buffer == buffer; });
      dependence.operand = same_buffer != operands.end() ? same_buffer->name : buffer;
    }
    auto const operand = find([&](Operand const& o) { return o.name == dependence.operand; });
    if (operand == operands.end())
      operands.push_back({dependence.operand, buffer, 0, 0});
    else if (operand->buffer != buffer)
      add(dependence.where,
          fmt::format("operand \"{}\" of {} reads buffer \"{}\", but the dependence brings \"{}\"",
                      operand->name, consumer.name, operand->buffer, buffer),
          fmt::format("declare it as reads(\"{}\", \"{}\"), or name another operand in through()",
                      operand->name, buffer));
  }
  for (auto const& stage : pipeline.stages) {
    for (std::size_t i = 0; i < stage.operands.size(); ++i) {
      auto const& operand = stage.operands[i];
      if (!is_identifier(operand.name))
        add(stage.where,
            fmt::format("\"{}\" cannot name an operand of {}", operand.name.substr(0, 60), stage.name),
            "use a C++ identifier");
      for (std::size_t j = 0; j < i; ++j)
        if (stage.operands[j].name == operand.name)
          add(stage.where, fmt::format("two operands of {} are named \"{}\"", stage.name, operand.name));
      if (!(operand.bytes_per_block >= 0 && operand.unique_bytes >= 0) ||
          !std::isfinite(operand.bytes_per_block) || !std::isfinite(operand.unique_bytes))
        add(stage.where,
            fmt::format("operand \"{}\" of {} has a number of bytes that is negative or not finite",
                        operand.name, stage.name));
    }
    if (stage.splits < 1 || stage.k_steps < 1 || stage.pipeline_stages < 1)
      add(stage.where,
          fmt::format("{} has {} splits, {} k steps and {} pipeline stages: each must be 1 or more",
                      stage.name, stage.splits, stage.k_steps, stage.pipeline_stages));
    if (!(stage.flops_per_block >= 0 && stage.store_bytes_per_block >= 0) ||
        !std::isfinite(stage.flops_per_block) || !std::isfinite(stage.store_bytes_per_block))
      add(stage.where, fmt::format("a cost of {} is negative or not finite", stage.name));
    if (stage.resources.threads < 1 || stage.resources.threads > 1024 ||
        stage.resources.registers_per_thread < 1 || stage.resources.shared_bytes < 0)
      add(stage.where,
          fmt::format("{} cannot have {} threads, {} registers per thread and {} bytes of shared memory",
                      stage.name, stage.resources.threads, stage.resources.registers_per_thread,
                      stage.resources.shared_bytes));
  }
}

Expected<Pipeline> PipelineBuilder::build() const {
  auto problems = problems_;
  auto pipeline = pipeline_;
  if (pipeline.stages.empty())
    problems.push_back({"E0130",
                        Severity::error,
                        pipeline.where,
                        fmt::format("pipeline \"{}\" has no stages", pipeline.name),
                        {},
                        {}});
  check_operands(pipeline, problems);
  if (!problems.empty()) return tl::make_unexpected(std::move(problems));
  return pipeline;
}

}  // namespace tessera
