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

class Decision {
 public:
  Decision(Pipeline const& pipeline, BufferReuse const& reuse, std::int64_t& steps)
      : pipeline_(pipeline), reuse_(reuse), conflict_(conflict_of(pipeline, reuse)), steps_left_(steps) {}

  /// The first uncovered (writer tile, reader tile), or none. Ask gave_up() first.
  std::optional<std::pair<std::int64_t, std::int64_t>> first_uncovered() {
    steps_left_ -= 16 * std::ssize(pipeline_.dependences);  // looked through and compiled
    if (gave_up() || !list_readers()) return std::nullopt;
    make_room();
    auto const writer_tiles = stage(reuse_.writer).tiles();
    for (std::int64_t tile = 0; tile < writer_tiles; ++tile) {
      auto const& awaited = awaited_by(tile);
      auto const missing = first_missing(tile, awaited);
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
        relations_[static_cast<std::size_t>(d.consumer)].push_back({d.producer, TileRelation(pipeline_, d)});
  }

  /// Flags of the reader's tiles that a tile of the writer awaits.
  Flags const& awaited_by(std::int64_t tile) {
    for (std::size_t s = 0; s < lists_.size(); ++s) {
      for (auto const t : lists_[s]) awaited_[s][static_cast<std::size_t>(t)] = 0;
      lists_[s].clear();
    }
    auto const& result = awaited_[static_cast<std::size_t>(reuse_.reader)];
    if (gave_up()) return result;
    lists_.back().push_back(tile);
    awaited_.back()[static_cast<std::size_t>(tile)] = 1;
    Tiles producers;
    for (int s = reuse_.writer; s > reuse_.reader; --s)
      for (auto const t : lists_[static_cast<std::size_t>(s)])
        for (auto const& [producer, relation] : relations_[static_cast<std::size_t>(s)]) {
          relation.producers_of(t, producers);
          steps_left_ -= 1 + static_cast<std::int64_t>(producers.size());
          if (gave_up()) return result;
          auto const p = static_cast<std::size_t>(producer);
          for (auto const u : producers) {
            auto& flag = awaited_[p][static_cast<std::size_t>(u)];
            if (!flag) lists_[p].push_back(u);
            flag = 1;
          }
        }
    return result;
  }

  /// The first reader tile that meets the writer's tile and is not awaited, or -1.
  std::int64_t first_missing(std::int64_t tile, Flags const& awaited) {
    if (conflict_.whole) {
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

  struct Step {
    int producer;
    TileRelation relation;
  };

  Pipeline const& pipeline_;
  BufferReuse const& reuse_;
  Conflict conflict_;
  std::int64_t& steps_left_;
  std::vector<Tiles> readers_of_;
  std::vector<Flags> awaited_;                // by stage, by tile: does the current writer tile await it?
  std::vector<Tiles> lists_;                  // the same as lists
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
