// SPDX-License-Identifier: Apache-2.0
// depends(): tiles as they are written in C++ become the accesses of a dependence.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "tessera/describe/dsl.hpp"

namespace tessera {
namespace {

/// A stage with coordinates, as the user's language writes it.
std::string tile_text(HostLanguage language, std::string const& stage, std::string const& coordinates) {
  return stage + (language == HostLanguage::python ? "[" + coordinates + "]" : "(" + coordinates + ")");
}

std::string shown(HostLanguage language, Stage const& stage) {
  return tile_text(language, stage.name, fmt::format("{}", fmt::join(stage.dimension_names(), ", ")));
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
         {}, "write " + shown(language_, stage));
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
             fmt::format("write {}, and expressions in the producer", shown(language_, stage)));
      return false;
    }
    auto& position = position_of[static_cast<std::size_t>(dim->expr_.value)];
    if (position >= 0) {
      report("E0133", consumer.where,
             fmt::format("the consumer {} has dimension {} twice", stage.name,
                         dim_names_[static_cast<std::size_t>(dim->expr_.value)]),
             {}, "write " + shown(language_, stage));
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
                       dim_names_[static_cast<std::size_t>(missing)], shown(language_, stage)),
           {},
           fmt::format("use {} for producer tiles that no consumer dimension selects",
                       language_ == HostLanguage::python ? "a slice" : "range() or all()"));
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

DependenceHandle PipelineBuilder::depends_on(ConsumerTile const& consumer,
                                             std::vector<TileRef> const& producers) {
  auto const first = pipeline_.dependences.size();
  DependenceHandle const none(this, first, 0);
  bool const python = language_ == HostLanguage::python;
  if (!check_rank(consumer.tile, consumer.where)) return none;
  std::vector<int> position_of;
  if (!bind(consumer, position_of)) return none;
  auto const& consumer_name = pipeline_.stages[static_cast<std::size_t>(consumer.tile.stage)].name;
  if (producers.empty())
    report("E0136", consumer.where, fmt::format("{} depends on nothing here", consumer_name));

  for (auto const& producer : producers) {
    if (!check_rank(producer, consumer.where)) continue;
    auto const& name = pipeline_.stages[static_cast<std::size_t>(producer.stage)].name;
    if (producer.distance < 0)
      report("E0136", consumer.where,
             fmt::format("earlier({}, {}) lies ahead", tile_text(language_, name, "..."), producer.distance),
             {}, "an iteration reads what earlier ones computed");
    if (producer.stage >= consumer.tile.stage && producer.distance == 0) {
      report("E0136", consumer.where,
             producer.stage == consumer.tile.stage
                 ? fmt::format("{} cannot depend on itself", name)
                 : fmt::format("{} cannot wait for {}, which is declared after it", consumer_name, name),
             {fmt::format("stages run in the order in which they are declared; the consumer comes first{}",
                          python ? "" : " in depends()")},
             producer.stage == consumer.tile.stage
                 ? fmt::format("what it computed an iteration before is earlier({}); a distance of 0 is "
                               "the same iteration",
                               tile_text(language_, name, "..."))
                 : fmt::format(
                       fmt::runtime(python ? "did you mean {}.reads({})?" : "did you mean depends({}, {})?"),
                       tile_text(language_, name, "..."), tile_text(language_, consumer_name, "...")));
      continue;
    }
    Access access;
    if (!to_access(consumer, producer, position_of, access)) continue;
    // Several tiles of one producer are one dependence.
    auto& all = pipeline_.dependences;
    auto same = first;
    while (same < all.size() &&
           (all[same].producer != producer.stage || distances_[same] != producer.distance))
      ++same;
    if (same == all.size()) {
      all.push_back(
          {consumer.tile.stage, producer.stage, "", {}, OnComplete::release_waiters, consumer.where, {}});
      distances_.push_back(producer.distance);
    }
    all[same].accesses.push_back(std::move(access));
  }
  return {this, first, pipeline_.dependences.size() - first};
}

}  // namespace tessera
