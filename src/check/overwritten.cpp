// SPDX-License-Identifier: Apache-2.0
#include "check/overwritten.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "check/awaited_tiles.hpp"
#include "check/names.hpp"
#include "tessera/describe/tile_relation.hpp"

namespace tessera::check_detail {
namespace {

using Box = TileRelation::Box;

constexpr std::int64_t k_steps = std::int64_t{1} << 26;  // of a dependence; a quarter of a second

/// The tiles of one grid over a buffer that meet a tile of another grid over it.
Box meeting(TileGrid const& grid, TileGrid const& other, Tile const& tile) {
  Box box = {{0, 0, 0, 0}, {1, 1, 1, 1}};
  for (int d = 0; d < grid.rank; ++d) {
    std::int64_t const extent = grid.extent[d], of_other = other.extent[d], at = tile.at[d];
    bool const known = grid.rank == other.rank;
    box.begin[d] = known ? static_cast<int>(at * extent / of_other) : 0;
    box.end[d] = known ? static_cast<int>(((at + 1) * extent + of_other - 1) / of_other) : grid.extent[d];
  }
  return box;
}

/// The first tile of the box, in launch order, for which `is` says true.
template <class Predicate>
std::optional<Tile> first_that(Box const& box, Predicate const& is) {
  Tile tile;
  for (tile.at[3] = box.begin[3]; tile.at[3] < box.end[3]; ++tile.at[3])
    for (tile.at[2] = box.begin[2]; tile.at[2] < box.end[2]; ++tile.at[2])
      for (tile.at[1] = box.begin[1]; tile.at[1] < box.end[1]; ++tile.at[1])
        for (tile.at[0] = box.begin[0]; tile.at[0] < box.end[0]; ++tile.at[0])
          if (is(tile)) return tile;
  return std::nullopt;
}

Tile first_of(Box const& box) {
  Tile tile;
  std::copy(box.begin, box.begin + k_max_rank, tile.at);
  return tile;
}

bool contains(Box const& box, Tile const& tile) {
  for (int d = 0; d < k_max_rank; ++d)
    if (tile.at[d] < box.begin[d] || tile.at[d] >= box.end[d]) return false;
  return true;
}

bool is_one_tile(Box const& box) {
  for (int d = 0; d < k_max_rank; ++d)
    if (box.end[d] - box.begin[d] != 1) return false;
  return true;
}

/// A consumer tile, a tile that it reads, and a tile that overwrites that.
struct Clash {
  std::int64_t reader = 0;
  Tile read, by;
};

struct Clashes {
  std::optional<Clash> certain;   ///< the first one
  std::optional<Clash> possible;  ///< where grids differ: the tile that is read is overwritten in parts
};

/// The consumer itself overwrites what it reads: each of its tiles waits for none of the others.
Clashes clashes_in_place(Pipeline const& pipeline, Dependence const& dependence) {
  TileRelation const reads(pipeline, dependence);
  auto const& grid = reads.consumer_grid();
  bool const comparable = grid.rank == reads.producer_grid().rank;
  Clashes found;
  std::vector<Box> boxes;
  for (std::int64_t t = 0; t < grid.tiles() && (comparable || !found.possible); ++t) {
    reads.boxes_of(t, boxes);
    auto const own = tile_of(grid, t);
    auto const elsewhere = [&](Tile const& tile) {
      auto const over = meeting(grid, reads.producer_grid(), tile);
      if (!found.possible && !is_one_tile(over)) found.possible = Clash{t, tile, first_of(over)};
      return !contains(over, own);
    };
    // A tile that reads nothing but what it overwrites reads few.
    for (auto const& box : boxes)
      if (auto const tile = first_that(box, elsewhere)) {
        found.certain = Clash{t, *tile, first_of(meeting(grid, reads.producer_grid(), *tile))};
        return found;
      }
  }
  return found;
}

/// A stage between the two overwrites what the consumer reads.
std::optional<Clash> clash_between(Pipeline const& pipeline, Dependence const& dependence, int writer) {
  TileRelation const reads(pipeline, dependence);
  auto const grid = pipeline.stages[static_cast<std::size_t>(writer)].tile_grid();
  auto steps = k_steps;
  AwaitedTiles awaited(pipeline, dependence.consumer, writer, steps);
  awaited.make_room();
  std::vector<Box> boxes;
  for (std::int64_t t = 0; t < reads.consumer_grid().tiles() && steps >= 0; ++t) {
    awaited.look_at(t);
    auto const is_awaited = [&](Tile const& by) {
      --steps;
      return steps < 0 || awaited.flags()[static_cast<std::size_t>(linear_of(grid, by))] != 0;
    };
    auto const stale = [&](Tile const& tile) {
      return !first_that(meeting(grid, reads.producer_grid(), tile), is_awaited);
    };
    reads.boxes_of(t, boxes);
    for (auto const& box : boxes)
      if (auto const tile = first_that(box, stale); tile && steps >= 0)
        return Clash{t, *tile, first_of(meeting(grid, reads.producer_grid(), *tile))};
  }
  return std::nullopt;
}

Diagnostic doubtful(SourceLine where, Stage const& reader, std::string message,
                    std::vector<std::string> notes) {
  return {"E0117",
          Severity::warning,
          std::move(where),
          std::move(message),
          std::move(notes),
          fmt::format("right only where each tile of {0} reads no more than it stores; else let {0} write a "
                      "buffer of its own",
                      reader.name)};
}

class Overwritten {
 public:
  Overwritten(Pipeline const& pipeline, Diagnostics& errors, Diagnostics& warnings)
      : pipeline_(pipeline), errors_(errors), warnings_(warnings) {
    for (int s = 0; s < static_cast<int>(pipeline.stages.size()); ++s) writers_[stage(s).output].push_back(s);
  }

  void look_at(Dependence const& dependence) {
    auto const& buffer = stage(dependence.producer).output;
    if (stage(dependence.consumer).output == buffer)
      report(dependence, clashes_in_place(pipeline_, dependence));
    auto const& writers = writers_.at(buffer);
    auto const later = std::lower_bound(writers.begin(), writers.end(), dependence.consumer);
    if (later == writers.begin() || later[-1] <= dependence.producer) return;
    // Writers before the last one are ordered before it, whatever they overwrite.
    if (auto const clash = clash_between(pipeline_, dependence, later[-1]))
      report(dependence, *clash, later[-1]);
  }

  /// Did an earlier stage write the buffer?
  bool written_before(std::string const& buffer, int reader) const {
    auto const writers = writers_.find(buffer);
    return writers != writers_.end() && writers->second.front() < reader;
  }

 private:
  Stage const& stage(int index) const { return pipeline_.stages[static_cast<std::size_t>(index)]; }

  static std::string name_of_tile(Stage const& one, Tile const& tile) {
    return tile_name(one, linear_of(one.tile_grid(), tile));
  }

  void report(Dependence const& dependence, Clashes const& clashes) {
    auto const& reader = stage(dependence.consumer);
    auto const& old = stage(dependence.producer);
    if (auto const& clash = clashes.certain)
      errors_.push_back({"E0117",
                         Severity::error,
                         place_of(pipeline_, dependence),
                         fmt::format("tiles of {} overwrite {} while others of {} still read it", reader.name,
                                     reader.output, reader.name),
                         {fmt::format("{} reads {}, which {} overwrites", tile_name(reader, clash->reader),
                                      name_of_tile(old, clash->read), name_of_tile(reader, clash->by))},
                         fmt::format("let {} write a buffer of its own, or each of its tiles read only what "
                                     "it overwrites itself",
                                     reader.name)});
    else if (auto const& doubt = clashes.possible)
      warnings_.push_back(
          doubtful(place_of(pipeline_, dependence), reader,
                   fmt::format("{} overwrites {} in other tiles than it reads", reader.name, reader.output),
                   {fmt::format("{} reads {}, which {} and others overwrite; {} has {} tiles, {} has {}",
                                tile_name(reader, doubt->reader), name_of_tile(old, doubt->read),
                                name_of_tile(reader, doubt->by), reader.name, grid_text(reader), old.name,
                                grid_text(old))}));
  }

  void report(Dependence const& dependence, Clash const& clash, int writer) {
    auto const& reader = stage(dependence.consumer);
    auto const& old = stage(dependence.producer);
    auto const& by = stage(writer);
    errors_.push_back({"E0117",
                       Severity::error,
                       place_of(pipeline_, dependence),
                       fmt::format("{} reads {} of {}, which {} overwrites, and does not wait for {} there",
                                   reader.name, by.output, old.name, by.name, by.name),
                       {fmt::format("{} reads {}, which {} overwrites", tile_name(reader, clash.reader),
                                    name_of_tile(old, clash.read), name_of_tile(by, clash.by))},
                       fmt::format("let {} read these tiles of {}, or {} write a buffer of its own",
                                   reader.name, by.name, by.name)});
  }

  Pipeline const& pipeline_;
  Diagnostics& errors_;
  Diagnostics& warnings_;
  std::map<std::string, std::vector<int>> writers_;  // stages by the buffer that they write
};

}  // namespace

Diagnostic undescribed(Pipeline const& pipeline, Stage const& stage, Operand const& operand) {
  return doubtful(
      place_of(pipeline, stage), stage,
      fmt::format("{} overwrites {} while it reads it through {}, and nothing says which tile reads what",
                  stage.name, stage.output, operand.name),
      {});
}

void check_overwritten(Pipeline const& pipeline, Diagnostics& errors, Diagnostics& warnings) {
  Overwritten finder(pipeline, errors, warnings);
  for (auto const& dependence : pipeline.dependences) finder.look_at(dependence);
  for (int s = 0; s < static_cast<int>(pipeline.stages.size()); ++s) {
    auto const& stage = pipeline.stages[static_cast<std::size_t>(s)];
    if (stage.tiles() == 1 || finder.written_before(stage.output, s)) continue;
    for (auto const& operand : stage.operands)
      if (operand.buffer == stage.output) warnings.push_back(undescribed(pipeline, stage, operand));
  }
}

}  // namespace tessera::check_detail
