// SPDX-License-Identifier: Apache-2.0
#include "json/timeline_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
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
    if (!document_.failed()) share_and_waves();
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

  /// SMs are busy where a row says so, and a slot had its rows. There may be more of both: blocks that pad a
  /// cluster, and workers that find no tile, are no rows. A run with counters counts less: when it computes.
  /// Of token generation nothing is said of waves, which is 0.
  void share_and_waves() {
    constexpr double k_rounding = 1e-3;
    auto const order = sorted_by([](TileRecord const& t) { return std::tie(t.gpu, t.sm, t.started); });
    double there = 0, waiting = 0;
    std::int64_t until = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      auto const& tile = timeline_.tiles[order[i]];
      auto const* const before = i > 0 ? &timeline_.tiles[order[i - 1]] : nullptr;
      if (before == nullptr || before->gpu != tile.gpu || before->sm != tile.sm) until = 0;
      there += static_cast<double>(std::max<std::int64_t>(tile.posted - std::max(tile.started, until), 0));
      until = std::max(until, tile.posted);
      waiting += static_cast<double>(tile.waiting);
    }
    auto const whole =
        static_cast<double>(std::max<std::int64_t>(timeline_.end, 1)) * timeline_.gpus * timeline_.sms;
    if (auto const least = (there - waiting) / whole;
        timeline_.counters.empty() && timeline_.busy < least - k_rounding)
      return report(*root_.find("busy"), fmt::format("SMs are said to be busy for {:.3g} of the time, and by "
                                                     "\"tiles\" are for {:.3g} at least",
                                                     timeline_.busy, least));
    std::map<std::tuple<int, int, int>, int> rows;
    int most = 0;
    for (auto const& tile : timeline_.tiles) most = std::max(most, ++rows[{tile.gpu, tile.sm, tile.slot}]);
    auto const stages = static_cast<double>(timeline_.stages.size());
    if (timeline_.waves == 0) return;
    if (timeline_.waves < most || timeline_.waves > 2 * (most + stages))
      report(*root_.find("waves"), fmt::format("\"waves\" is {:g}, and a slot has up to {} rows of \"tiles\"",
                                               timeline_.waves, most));
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
