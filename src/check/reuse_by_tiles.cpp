// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <optional>
#include <tuple>
#include <utility>

#include "check/reuse.hpp"
#include "tessera/describe/tile_relation.hpp"

namespace tessera::check_detail {
namespace {

using Flags = std::vector<char>;
using Tiles = std::vector<std::int64_t>;

using Box = TileRelation::Box;

bool same_boxes(std::vector<Box> const& a, std::vector<Box> const& b) {
  auto const same = [](Box const& x, Box const& y) {
    return std::equal(x.begin, x.begin + k_max_rank, y.begin) && std::equal(x.end, x.end + k_max_rank, y.end);
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
}

/// One dependence of a consumer, with what the tile looked at last reads through it.
struct Step {
  Step(int index, TileRelation compiled) : producer(index), relation(std::move(compiled)) {}

  int producer;
  TileRelation relation;
  std::vector<Box> boxes;

  /// Looks at a tile; true if its boxes differ from the last tile's.
  bool take_boxes(std::int64_t tile, std::int64_t& steps_left) {
    relation.boxes_of(tile, scratch_);
    steps_left -= 1 + std::ssize(scratch_);
    auto const differ = !same_boxes(boxes, scratch_);
    if (differ) boxes.swap(scratch_);
    return differ;
  }

 private:
  std::vector<Box> scratch_;
};

class Decision {
 public:
  Decision(Pipeline const& pipeline, BufferReuse const& reuse, std::int64_t& steps)
      : pipeline_(pipeline), reuse_(reuse), conflict_(conflict_of(pipeline, reuse)), steps_left_(steps) {}

  /// The first uncovered (writer tile, reader tile), or none. Ask gave_up() first.
  std::optional<std::pair<std::int64_t, std::int64_t>> first_uncovered() {
    steps_left_ -= 16 * std::ssize(pipeline_.dependences);  // looked through and compiled
    if (gave_up() || !list_readers()) return std::nullopt;
    make_room();
    if (gave_up()) return std::nullopt;
    auto const writer_tiles = stage(reuse_.writer).tiles();
    for (std::int64_t tile = 0; tile < writer_tiles; ++tile) {
      await(tile);
      auto const missing = first_missing(tile);
      if (gave_up()) return std::nullopt;
      if (missing >= 0) return std::pair{tile, missing};
    }
    return std::nullopt;
  }

  bool gave_up() const { return steps_left_ < 0; }

 private:
  Stage const& stage(int index) const { return pipeline_.stages[static_cast<std::size_t>(index)]; }

  /// readers_of_[t]: reader tiles that read producer tile t through the conflict's dependences.
  bool list_readers() {
    if (conflict_.whole || conflict_.dependences.empty()) return !gave_up();
    steps_left_ -= stage(reuse_.writer).tiles();
    if (gave_up()) return false;
    readers_of_.resize(static_cast<std::size_t>(stage(reuse_.writer).tiles()));
    Tiles producers;
    for (auto const index : conflict_.dependences) {
      TileRelation const relation(pipeline_, pipeline_.dependences[static_cast<std::size_t>(index)]);
      for (std::int64_t u = 0; u < stage(reuse_.reader).tiles(); ++u) {
        relation.producers_of(u, producers);
        // Listing costs more than looking; a list also takes memory.
        steps_left_ -= 1 + 8 * static_cast<std::int64_t>(producers.size());
        if (gave_up()) return false;
        for (auto const t : producers) readers_of_[static_cast<std::size_t>(t)].push_back(u);
      }
    }
    return true;
  }

  void make_room() {
    awaited_.resize(static_cast<std::size_t>(reuse_.writer) + 1);
    lists_.resize(awaited_.size());
    relations_.resize(awaited_.size());
    for (int s = reuse_.reader; s <= reuse_.writer; ++s) {
      steps_left_ -= stage(s).tiles();
      if (gave_up()) return;
      awaited_[static_cast<std::size_t>(s)].assign(static_cast<std::size_t>(stage(s).tiles()), 0);
    }
    for (auto const& d : pipeline_.dependences)
      if (d.consumer <= reuse_.writer && d.producer >= reuse_.reader)
        relations_[static_cast<std::size_t>(d.consumer)].emplace_back(d.producer, TileRelation(pipeline_, d));
  }

  /// Leaves in awaited_ the tiles that a tile of the writer awaits. Neighbouring tiles often read the same
  /// boxes (all tiles of a row): then everything stays as it is.
  void await(std::int64_t tile) {
    auto& steps_of_writer = relations_.back();
    same_as_before_ = tile > 0;
    for (auto& step : steps_of_writer)
      same_as_before_ = !step.take_boxes(tile, steps_left_) && same_as_before_;
    if (same_as_before_ || gave_up()) return;

    for (std::size_t s = 0; s + 1 < lists_.size(); ++s) {
      steps_left_ -= std::ssize(lists_[s]) / 4;
      for (auto const t : lists_[s]) awaited_[s][static_cast<std::size_t>(t)] = 0;
      lists_[s].clear();
    }
    for (auto& step : steps_of_writer) mark(step);
    for (int s = reuse_.writer - 1; s > reuse_.reader; --s)
      for (auto& step : relations_[static_cast<std::size_t>(s)]) {
        step.boxes.clear();
        for (auto const t : lists_[static_cast<std::size_t>(s)])
          if (step.take_boxes(t, steps_left_)) mark(step);
        if (gave_up()) return;
      }
  }

  void mark(Step const& step) {
    auto const grid = step.relation.producer_grid();
    auto& flags = awaited_[static_cast<std::size_t>(step.producer)];
    auto& list = lists_[static_cast<std::size_t>(step.producer)];
    for (auto const& box : step.boxes) {
      Tile tile;
      for (tile.at[3] = box.begin[3]; tile.at[3] < box.end[3]; ++tile.at[3])
        for (tile.at[2] = box.begin[2]; tile.at[2] < box.end[2]; ++tile.at[2])
          for (tile.at[1] = box.begin[1]; tile.at[1] < box.end[1] && !gave_up(); ++tile.at[1]) {
            tile.at[0] = box.begin[0];
            auto const first = linear_of(grid, tile);
            auto const count = box.end[0] - box.begin[0];
            steps_left_ -= 1 + count;
            for (auto u = first; u < first + count; ++u) {
              auto& flag = flags[static_cast<std::size_t>(u)];
              if (!flag) list.push_back(u);
              flag = 1;
            }
          }
    }
  }

  /// The first reader tile that meets the writer's tile and is not awaited, or -1.
  std::int64_t first_missing(std::int64_t tile) {
    auto const& awaited = awaited_[static_cast<std::size_t>(reuse_.reader)];
    if (conflict_.whole) {
      if (same_as_before_) return -1;  // or the tile before would have ended the search
      steps_left_ -= static_cast<std::int64_t>(awaited.size()) / 16;
      auto const found = std::find(awaited.begin(), awaited.end(), 0);
      return found == awaited.end() ? -1 : found - awaited.begin();
    }
    std::int64_t first = -1;
    auto const look = [&](std::int64_t u) {
      if (!awaited[static_cast<std::size_t>(u)] && (first < 0 || u < first)) first = u;
    };
    if (conflict_.same_tile) look(tile);
    if (!readers_of_.empty()) {
      auto const& readers = readers_of_[static_cast<std::size_t>(tile)];
      steps_left_ -= static_cast<std::int64_t>(readers.size());
      for (auto const u : readers) look(u);
    }
    return first;
  }

  Pipeline const& pipeline_;
  BufferReuse const& reuse_;
  Conflict conflict_;
  std::int64_t& steps_left_;
  std::vector<Tiles> readers_of_;
  std::vector<Flags> awaited_;                // by stage, by tile: does the current writer tile await it?
  std::vector<Tiles> lists_;                  // the same as lists
  bool same_as_before_ = false;               // the writer's current tile awaits what the one before did
  std::vector<std::vector<Step>> relations_;  // by consumer
};

}  // namespace

bool decide_by_tiles(Pipeline const& pipeline, BufferReuse& reuse, std::int64_t& steps) {
  Decision decision(pipeline, reuse, steps);
  auto const pair = decision.first_uncovered();
  if (decision.gave_up()) return false;
  reuse.covered = !pair;
  if (pair) std::tie(reuse.writer_tile, reuse.reader_tile) = *pair;
  return true;
}

}  // namespace tessera::check_detail
