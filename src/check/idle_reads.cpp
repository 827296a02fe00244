// SPDX-License-Identifier: Apache-2.0
#include "check/idle_reads.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <string>

#include "check/names.hpp"
#include "diagnostic/nearest.hpp"
#include "tessera/describe/tile_program.hpp"

namespace tessera::check_detail {
namespace {

constexpr std::size_t k_shown = 4;

/// "3", "[2, 5)": a range for a tile of the consumer, before it is cut to the grid.
std::string range_text(TileRange const& range, Tile const& tile) {
  auto const begin = TileProgram(range.begin).evaluate(tile.at);
  auto const end = TileProgram(range.end).evaluate(tile.at);
  return begin + 1 == end ? fmt::format("{}", begin) : fmt::format("[{}, {})", begin, end);
}

/// "gemm1([0, 0), 3)" for each access, up to a few.
std::string boxes_text(Stage const& producer, Dependence const& dependence, Tile const& tile) {
  std::vector<std::string> boxes;
  for (auto const& access : dependence.accesses) {
    if (boxes.size() == k_shown) {
      boxes.push_back(fmt::format("{} more", dependence.accesses.size() - k_shown));
      break;
    }
    std::vector<std::string> ranges;
    for (auto const& range : access.ranges) ranges.push_back(range_text(range, tile));
    boxes.push_back(fmt::format("{}({})", producer.name, fmt::join(ranges, ", ")));
  }
  return list_of(boxes);
}

bool all_tiles_read(Pipeline const& pipeline, std::vector<DependenceFacts> const& facts,
                    Dependence const& between) {
  for (std::size_t i = 0; i < facts.size(); ++i)
    if (pipeline.dependences[i].consumer == between.consumer &&
        pipeline.dependences[i].producer == between.producer && facts[i].min_producers > 0)
      return true;
  return false;
}

}  // namespace

void report_idle_reads(Pipeline const& pipeline, std::vector<IdleReads> const& idle,
                       std::vector<DependenceFacts> const& facts, Diagnostics& warnings) {
  for (auto const& one : idle) {
    auto const& dependence = pipeline.dependences[one.dependence];
    if (all_tiles_read(pipeline, facts, dependence)) continue;
    auto const& consumer = pipeline.stages[static_cast<std::size_t>(dependence.consumer)];
    auto const& producer = pipeline.stages[static_cast<std::size_t>(dependence.producer)];
    warnings.push_back(
        {"E0107",
         Severity::warning,
         place_of(pipeline, dependence),
         fmt::format("{} of {} tiles of {} read nothing of {} through {}, so they do not wait for it",
                     one.tiles, consumer.tiles(), consumer.name, producer.name, dependence.operand),
         {fmt::format("the first is {}, which names {}; {} has {} tiles", tile_name(consumer, one.first),
                      boxes_text(producer, dependence, tile_of(consumer.tile_grid(), one.first)),
                      producer.name, grid_text(producer))},
         "right where these tiles read nothing there; else mend the range: it is half-open, [begin, end) "
         "without end, and a clamped one is cut to the grid"});
  }
}

}  // namespace tessera::check_detail
