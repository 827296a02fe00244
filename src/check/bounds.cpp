// SPDX-License-Identifier: Apache-2.0
#include "check/bounds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "check/names.hpp"
#include "integer_sets/tile_map.hpp"

namespace tessera::check_detail {
namespace {

// About 0.1 s at worst; the answer is a convenience, and "at least one" is honest without it.
constexpr unsigned long k_operations = 20'000;

bool is_one_tile(TileRange const& range) { return range.begin + TileExpr::constant(1) == range.end; }

/// "gemm1(i, y) for 0 <= i < 24", with fresh names for the ranges.
std::string access_text(Stage const& consumer, Stage const& producer, Access const& access) {
  auto const names = consumer.dimension_names();
  std::string coordinates;
  std::string conditions;
  char fresh = 'i';
  for (auto const& range : access.ranges) {
    if (!coordinates.empty()) coordinates += ", ";
    if (is_one_tile(range)) {
      coordinates += to_text(range.begin, names);
      continue;
    }
    while (std::find(names.begin(), names.end(), std::string(1, fresh)) != names.end()) ++fresh;
    coordinates += fresh;
    conditions += fmt::format("{}{} <= {} < {}", conditions.empty() ? " for " : ", ",
                              to_text(range.begin, names), fresh, to_text(range.end, names));
    ++fresh;
  }
  return fmt::format("{}({}){}", producer.name, coordinates, conditions);
}

std::string point_text(Stage const& stage, std::array<std::int64_t, k_max_rank> const& point) {
  return fmt::format("{}({})", stage.name,
                     fmt::join(point.begin(), point.begin() + std::ssize(stage.grid), ", "));
}

/// How many different tiles are named that do not exist; empty if that is too hard to say.
std::string missing_text(Stage const& consumer, Stage const& producer, Dependence const& dependence) {
  integer_sets::Limit const limit(k_operations);
  auto const outside = integer_sets::TileMap::reads(limit, consumer.tile_grid(), producer.tile_grid(),
                                                    dependence.accesses, integer_sets::Keep::outside);
  auto const count = outside.gave_up() ? std::nullopt : outside.count_targets();
  if (!count) return {};
  return fmt::format("{} of the tiles asked for {} not exist; ", *count, *count == 1 ? "does" : "do");
}

std::string suggestion(Stage const& producer, Access const& access, std::size_t d, std::int64_t coordinate) {
  auto const& range = access.ranges[d];
  auto const& dim = producer.grid[d];
  if (range.end.op == TileExpr::Op::constant && coordinate >= dim.extent)
    return fmt::format("{} has {} in {} and the range ends at {}; were two tile sizes mixed up?",
                       producer.name, count_text(dim.extent, "tile"), dim.name, range.end.value);
  if (coordinate < 0)
    return fmt::format("if tiles at the edge simply have fewer neighbours, clamp the range of {}", dim.name);
  return fmt::format(
      "compare the grids of both stages in {}; if tiles at the edge simply need fewer tiles, "
      "clamp the range",
      dim.name);
}

void report_outside(Pipeline const& pipeline, Dependence const& dependence, OutsideRead const& outside,
                    Diagnostics& errors) {
  auto const& consumer = pipeline.stages[static_cast<std::size_t>(dependence.consumer)];
  auto const& producer = pipeline.stages[static_cast<std::size_t>(dependence.producer)];
  auto const& access = dependence.accesses[outside.access];
  std::size_t d = 0;
  while (outside.producer[d] >= 0 && outside.producer[d] < producer.grid[d].extent) ++d;

  Diagnostic finding{"E0103",
                     Severity::error,
                     place_of(pipeline, dependence),
                     fmt::format("dependence reads {} tiles outside its grid", producer.name),
                     {},
                     suggestion(producer, access, d, outside.producer[d])};
  finding.notes.push_back(fmt::format("{}({}) needs {}, but {} has {} in {}", consumer.name,
                                      fmt::join(consumer.dimension_names(), ", "),
                                      access_text(consumer, producer, access), producer.name,
                                      count_text(producer.grid[d].extent, "tile"), producer.grid[d].name));
  finding.notes.push_back(fmt::format("first bad pair: {} -> {}", tile_name(consumer, outside.consumer_tile),
                                      point_text(producer, outside.producer)));
  finding.notes.push_back(fmt::format("{}{} has {} tiles, {} has {}",
                                      missing_text(consumer, producer, dependence), consumer.name,
                                      grid_text(consumer), producer.name, grid_text(producer)));
  errors.push_back(std::move(finding));
}

/// An empty access beside others is odd; a dependence that waits for nothing at all lets its consumer read a
/// buffer that is still being written.
void report_empty(Pipeline const& pipeline, Dependence const& dependence, std::size_t index,
                  AccessUse const& use, bool whole, Diagnostics& errors, Diagnostics& warnings) {
  auto const& consumer = pipeline.stages[static_cast<std::size_t>(dependence.consumer)];
  auto const& producer = pipeline.stages[static_cast<std::size_t>(dependence.producer)];
  auto const& access = dependence.accesses[index];
  auto const text = access_text(consumer, producer, access);
  if (use.runs_backwards) {
    auto const d = static_cast<std::size_t>(use.backward_dimension);
    auto const names = consumer.dimension_names();
    errors.push_back({"E0107",
                      Severity::error,
                      place_of(pipeline, dependence),
                      fmt::format("the range of {}'s {} ends before it begins, for every tile of {}",
                                  producer.name, producer.grid[d].name, consumer.name),
                      {fmt::format("from {} up to {}", to_text(access.ranges[d].begin, names),
                                   to_text(access.ranges[d].end, names))},
                      "swap begin and end; a range is half-open, its end is not read"});
    return;
  }
  auto& findings = whole ? errors : warnings;
  findings.push_back({"E0107",
                      whole ? Severity::error : Severity::warning,
                      place_of(pipeline, dependence),
                      fmt::format("{} reads no tile of {} here", consumer.name, producer.name),
                      {fmt::format("{} is empty for every tile of {}", text, consumer.name)},
                      "a range is half-open: [begin, end) without end"});
}

}  // namespace

void report_reads(Pipeline const& pipeline, Dependence const& dependence, DependenceCount const& count,
                  Diagnostics& errors, Diagnostics& warnings) {
  if (count.first_outside) report_outside(pipeline, dependence, *count.first_outside, errors);
  bool const whole = std::none_of(count.accesses.begin(), count.accesses.end(),
                                  [](AccessUse const& use) { return use.reads_something; });
  for (std::size_t a = 0; a < count.accesses.size(); ++a)
    if (!count.accesses[a].reads_something)
      report_empty(pipeline, dependence, a, count.accesses[a], whole, errors, warnings);
  if (count.accesses.empty())
    errors.push_back(
        {"E0107",
         Severity::error,
         place_of(pipeline, dependence),
         fmt::format("the dependence of {} on {} names no tiles", name_of(pipeline, dependence.consumer),
                     name_of(pipeline, dependence.producer)),
         {},
         "name the tiles that are read, or remove the dependence"});
}

}  // namespace tessera::check_detail
