// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <optional>
#include <tuple>
#include <utility>

#include "check/awaited_tiles.hpp"
#include "check/reuse.hpp"
#include "tessera/describe/tile_relation.hpp"

namespace tessera::check_detail {
namespace {

using Tiles = std::vector<std::int64_t>;

class Decision {
 public:
  Decision(Pipeline const& pipeline, BufferReuse const& reuse, std::int64_t& steps)
      : pipeline_(pipeline),
        reuse_(reuse),
        conflict_(conflict_of(pipeline, reuse)),
        steps_left_(steps),
        awaited_(pipeline, reuse.writer, reuse.reader, steps) {}

  /// The first uncovered (writer tile, reader tile), or none. Ask gave_up() first.
  std::optional<std::pair<std::int64_t, std::int64_t>> first_uncovered() {
    steps_left_ -= 16 * std::ssize(pipeline_.dependences);  // looked through and compiled
    if (gave_up() || !list_readers()) return std::nullopt;
    awaited_.make_room();
    if (gave_up()) return std::nullopt;
    auto const writer_tiles = stage(reuse_.writer).tiles();
    for (std::int64_t tile = 0; tile < writer_tiles; ++tile) {
      same_as_before_ = !awaited_.look_at(tile);
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

  /// The first reader tile that meets the writer's tile and is not awaited, or -1.
  std::int64_t first_missing(std::int64_t tile) {
    auto const& awaited = awaited_.flags();
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
  AwaitedTiles awaited_;         // by the writer's current tile
  bool same_as_before_ = false;  // it awaits what the tile before did
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
