// SPDX-License-Identifier: Apache-2.0
#include "check/count.hpp"

#include <algorithm>
#include <limits>
#include <span>

#include "check/coverage.hpp"
#include "check/limits.hpp"
#include "check/union_size.hpp"
#include "tessera/describe/tile_program.hpp"

namespace tessera::check_detail {
namespace {

struct CompiledRange {
  TileProgram begin;
  TileProgram end;
  bool clamp;
  std::int64_t extent;
  bool always_backwards = true;
};

using CompiledAccess = std::vector<CompiledRange>;
using Box = TileRelation::Box;

struct WideBox {
  std::int64_t begin[k_max_rank];
  std::int64_t end[k_max_rank];
};

/// The first point of the box, the last dimension counting most, that is not inside the grid.
/// Precondition: there is one.
std::array<std::int64_t, k_max_rank> first_point_outside(WideBox const& box, TileGrid const& grid) {
  std::array<std::int64_t, k_max_rank> point{};
  bool outside = false;
  for (int d = 0; d < grid.rank; ++d) {
    point[static_cast<std::size_t>(d)] = box.begin[d];
    outside = outside || box.begin[d] < 0 || box.begin[d] >= grid.extent[d];
  }
  for (int d = 0; d < grid.rank && !outside; ++d)
    if (box.end[d] > grid.extent[d]) {
      point[static_cast<std::size_t>(d)] = grid.extent[d];
      outside = true;
    }
  return point;
}

bool before(std::array<std::int64_t, k_max_rank> const& a, std::array<std::int64_t, k_max_rank> const& b) {
  return std::lexicographical_compare(a.rbegin(), a.rend(), b.rbegin(), b.rend());
}

class Counter {
 public:
  Counter(Pipeline const& pipeline, Dependence const& dependence)
      : consumer_(pipeline.stages[static_cast<std::size_t>(dependence.consumer)].tile_grid()),
        producer_(pipeline.stages[static_cast<std::size_t>(dependence.producer)].tile_grid()),
        coverage_(producer_) {
    for (auto const& access : dependence.accesses) {
      CompiledAccess compiled;
      for (std::size_t d = 0; d < access.ranges.size(); ++d) {
        auto const& range = access.ranges[d];
        compiled.push_back(
            {TileProgram(range.begin), TileProgram(range.end), range.clamp, producer_.extent[d]});
      }
      accesses_.push_back(std::move(compiled));
    }
    result_.accesses.resize(accesses_.size());
    result_.facts.min_producers = std::numeric_limits<std::int64_t>::max();
  }

  std::optional<DependenceCount> run(std::int64_t& steps, std::vector<bool>& read) {
    // Consumer dimensions that no expression mentions change nothing: one coordinate stands for all.
    TileGrid walk = consumer_;
    for (int d = 0; d < k_max_rank; ++d)
      if (!mentions(d)) walk.extent[d] = 1;
    auto const repeats = consumer_.tiles() / walk.tiles();
    auto const tiles = walk.tiles();
    steps += producer_.tiles() / 4;  // the passes over all producer tiles at the end
    if (steps + tiles * static_cast<std::int64_t>(accesses_.size() + 1) > k_max_evaluations) {
      steps = k_max_evaluations + 1;
      return std::nullopt;
    }

    Tile tile;
    for (std::int64_t t = 0; t < tiles; ++t) {
      visit(tile, repeats, steps);
      if (steps > k_max_evaluations) return std::nullopt;
      for (int d = 0; d < k_max_rank; ++d) {
        if (++tile.at[d] < walk.extent[d]) break;
        tile.at[d] = 0;
      }
    }
    finish(read);
    return std::move(result_);
  }

 private:
  bool mentions(int dimension) const {
    for (auto const& access : accesses_)
      for (auto const& range : access)
        if (range.begin.uses(dimension) || range.end.uses(dimension)) return true;
    return false;
  }

  void visit(Tile const& tile, std::int64_t repeats, std::int64_t& steps) {
    boxes_.clear();
    auto const may_be_first = !result_.first_outside;
    for (std::size_t a = 0; a < accesses_.size(); ++a) {
      WideBox wide;
      bool outside = false;
      if (!evaluate(accesses_[a], tile, wide, outside)) continue;
      result_.accesses[a].reads_something = true;
      if (outside && may_be_first) {
        auto const point = first_point_outside(wide, producer_);
        if (!result_.first_outside || before(point, result_.first_outside->producer))
          result_.first_outside = OutsideRead{a, linear_of(consumer_, tile), point};
      }
      add_box(wide);
    }
    auto const size = union_size(boxes_, producer_.rank, steps, k_max_evaluations);
    ++steps;
    if (size == 0) {
      if (result_.idle_consumers == 0) result_.first_idle_consumer = linear_of(consumer_, tile);
      result_.idle_consumers += repeats;
    }
    auto& facts = result_.facts;
    facts.pairs += size * repeats;
    facts.min_producers = std::min(facts.min_producers, size);
    facts.max_producers = std::max(facts.max_producers, size);
  }

  /// The tiles that an access names; false: none. `outside`: some of them do not exist.
  static bool evaluate(CompiledAccess& access, Tile const& tile, WideBox& box, bool& outside) {
    bool empty = false;
    for (std::size_t d = 0; d < access.size(); ++d) {
      auto& range = access[d];
      auto begin = range.begin.evaluate(tile.at);
      auto end = range.end.evaluate(tile.at);
      if (begin <= end) range.always_backwards = false;
      if (range.clamp) {
        begin = std::max<std::int64_t>(begin, 0);
        end = std::min(end, range.extent);
      }
      empty = empty || begin >= end;
      outside = outside || begin < 0 || end > range.extent;
      box.begin[d] = begin;
      box.end[d] = end;
    }
    return !empty;
  }

  void add_box(WideBox const& wide) {
    Box box = {{0, 0, 0, 0}, {1, 1, 1, 1}};
    for (int d = 0; d < producer_.rank; ++d) {
      auto const begin = std::max<std::int64_t>(wide.begin[d], 0);
      auto const end = std::min<std::int64_t>(wide.end[d], producer_.extent[d]);
      if (begin >= end) return;
      box.begin[d] = static_cast<int>(begin);
      box.end[d] = static_cast<int>(end);
    }
    boxes_.push_back(box);
    coverage_.add(box);
  }

  void finish(std::vector<bool>& read) {
    for (std::size_t a = 0; a < accesses_.size(); ++a)
      for (std::size_t d = 0; d < accesses_[a].size(); ++d)
        if (accesses_[a][d].always_backwards && !result_.accesses[a].runs_backwards) {
          result_.accesses[a].runs_backwards = true;
          result_.accesses[a].backward_dimension = static_cast<int>(d);
        }
    auto const counts = coverage_.take_counts();
    for (std::size_t t = 0; t < counts.size(); ++t) {
      if (counts[t] > 0)
        read[t] = true;
      else
        ++result_.facts.unread_producers;
    }
  }

  TileGrid consumer_;
  TileGrid producer_;
  Coverage coverage_;
  std::vector<CompiledAccess> accesses_;
  std::vector<Box> boxes_;
  DependenceCount result_;
};

}  // namespace

std::optional<DependenceCount> count_dependence(Pipeline const& pipeline, Dependence const& dependence,
                                                std::int64_t& steps, std::vector<bool>& read) {
  return Counter(pipeline, dependence).run(steps, read);
}

}  // namespace tessera::check_detail
