// SPDX-License-Identifier: Apache-2.0
#include "json/timeline_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <tuple>

namespace tessera::json {
namespace {

class Rows {
 public:
  Rows(Document& document, ObjectReader& root, std::vector<Node> const& rows, Timeline const& timeline,
       char const* code)
      : document_(document), root_(root), rows_(rows), timeline_(timeline), code_(code) {}

  void run() {
    if (timeline_.by_launch)
      return report(rows_.front(), "a timeline by launch has the times of launches, and no tiles");
    each_tile_once();
    if (!document_.failed()) spans();
    if (!document_.failed()) one_at_a_time();
  }

 private:
  void report(Node const& where, std::string message) { document_.report(where, code_, std::move(message)); }

  template <class Key>
  std::vector<std::size_t> sorted_by(Key key) const {
    std::vector<std::size_t> order(rows_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return key(timeline_.tiles[a]) < key(timeline_.tiles[b]);
    });
    return order;
  }

  Node const& stage_node(std::size_t stage) { return root_.find("stages")->items()[stage]; }

  std::string name_of(TileRecord const& tile) const {
    auto const& stage = timeline_.stages[static_cast<std::size_t>(tile.stage)];
    return fmt::format("tile {}{} of \"{}\"{}", tile.tile,
                       stage.splits > 1 ? fmt::format(", split {},", tile.split) : "", stage.name,
                       timeline_.gpus > 1 ? fmt::format(" on GPU {}", tile.gpu) : "");
  }

  /// Each GPU that has blocks of a stage has all of them.
  void each_tile_once() {
    auto const key = [](TileRecord const& t) { return std::tie(t.stage, t.gpu, t.split, t.tile); };
    auto const order = sorted_by(key);
    std::vector<bool> seen(timeline_.stages.size());
    for (std::size_t i = 0; i < order.size();) {
      auto const& first = timeline_.tiles[order[i]];
      auto const stage = static_cast<std::size_t>(first.stage);
      auto const begin = i;
      for (++i; i < order.size(); ++i) {
        auto const& tile = timeline_.tiles[order[i]];
        if (key(tile) == key(timeline_.tiles[order[i - 1]]))
          return report(rows_[std::max(order[i], order[i - 1])], name_of(tile) + " is there twice");
        if (tile.stage != first.stage || tile.gpu != first.gpu) break;
      }
      auto const blocks = timeline_.stages[stage].tiles * timeline_.stages[stage].splits;
      auto const there = static_cast<std::int64_t>(i - begin);
      if (there != blocks) return missing(stage, there, blocks);
      seen[stage] = true;
    }
    for (std::size_t s = 0; s < seen.size(); ++s)
      if (!seen[s]) return missing(s, 0, timeline_.stages[s].tiles * timeline_.stages[s].splits);
  }

  void missing(std::size_t stage, std::int64_t there, std::int64_t blocks) {
    report(stage_node(stage), fmt::format("stage \"{}\" has {} blocks, and \"tiles\" has {} of them",
                                          timeline_.stages[stage].name, blocks, there));
  }

  /// Stages begin with their first block. They end with their last or later: blocks of an early launch leave
  /// when the launches before are complete, and blocks that pad a cluster are no rows.
  void spans() {
    std::vector<std::pair<std::int64_t, std::int64_t>> found(timeline_.stages.size(), {-1, 0});
    for (auto const& tile : timeline_.tiles) {
      auto& [first, last] = found[static_cast<std::size_t>(tile.stage)];
      first = first < 0 ? tile.started : std::min(first, tile.started);
      last = std::max(last, tile.posted);
    }
    for (std::size_t s = 0; s < found.size(); ++s) {
      auto const& stage = timeline_.stages[s];
      auto const [first, last] = found[s];
      if (stage.first_start != first || stage.last_end < last)
        return report(
            stage_node(s),
            fmt::format("stage \"{}\" is said to last from {} to {} ps, and its tiles from {} to {}",
                        stage.name, stage.first_start, stage.last_end, first, last));
    }
  }

  void one_at_a_time() {
    auto const order =
        sorted_by([](TileRecord const& t) { return std::tie(t.gpu, t.sm, t.slot, t.started, t.posted); });
    for (std::size_t i = 1; i < order.size(); ++i) {
      auto const& before = timeline_.tiles[order[i - 1]];
      auto const& tile = timeline_.tiles[order[i]];
      bool const same =
          std::tie(before.gpu, before.sm, before.slot) == std::tie(tile.gpu, tile.sm, tile.slot);
      if (same && tile.started < before.posted)
        return report(rows_[order[i]], fmt::format("{} starts in slot {} of SM {} before {} has left it",
                                                   name_of(tile), tile.slot, tile.sm, name_of(before)));
    }
  }

  Document& document_;
  ObjectReader& root_;
  std::vector<Node> const& rows_;
  Timeline const& timeline_;
  char const* code_;
};

}  // namespace

void check_rows(Document& document, ObjectReader& root, std::vector<Node> const& rows,
                Timeline const& timeline, char const* code) {
  if (!rows.empty()) Rows(document, root, rows, timeline, code).run();
}

}  // namespace tessera::json
