// SPDX-License-Identifier: Apache-2.0
#include "check/awaited_tiles.hpp"

#include <algorithm>
#include <cstddef>

namespace tessera::check_detail {
namespace {

constexpr std::int64_t k_room = 64;  // of a stage, in steps: its lists

bool same_boxes(std::vector<TileRelation::Box> const& a, std::vector<TileRelation::Box> const& b) {
  auto const same = [](TileRelation::Box const& x, TileRelation::Box const& y) {
    return std::equal(x.begin, x.begin + k_max_rank, y.begin) && std::equal(x.end, x.end + k_max_rank, y.end);
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
}

}  // namespace

bool AwaitedTiles::Step::take_boxes(std::int64_t tile, std::int64_t& steps_left) {
  relation.boxes_of(tile, scratch_);
  steps_left -= 1 + std::ssize(scratch_);
  auto const differ = !same_boxes(boxes, scratch_);
  if (differ) boxes.swap(scratch_);
  return differ;
}

void AwaitedTiles::make_room() {
  awaited_.resize(at(later_) + 1);
  lists_.resize(awaited_.size());
  relations_.resize(awaited_.size());
  for (int s = earlier_; s <= later_; ++s) {
    auto const tiles = pipeline_.stages[static_cast<std::size_t>(s)].tiles();
    steps_left_ -= k_room + tiles;
    if (gave_up()) return;
    awaited_[at(s)].assign(static_cast<std::size_t>(tiles), 0);
  }
  for (auto const& d : pipeline_.dependences)
    if (d.consumer <= later_ && d.producer >= earlier_)
      relations_[at(d.consumer)].emplace_back(d.producer, TileRelation(pipeline_, d));
}

bool AwaitedTiles::look_at(std::int64_t tile) {
  auto& steps_of_later = relations_.back();
  bool differs = tile == 0;
  for (auto& step : steps_of_later) differs = step.take_boxes(tile, steps_left_) || differs;
  // Neighbouring tiles often read the same boxes (all tiles of a row): then everything stays as it is.
  if (!differs || gave_up()) return differs;

  for (std::size_t s = 0; s + 1 < lists_.size(); ++s) {
    steps_left_ -= std::ssize(lists_[s]) / 4;
    for (auto const t : lists_[s]) awaited_[s][static_cast<std::size_t>(t)] = 0;
    lists_[s].clear();
  }
  for (auto const& step : steps_of_later) mark(step);
  for (int s = later_ - 1; s > earlier_; --s)
    for (auto& step : relations_[at(s)]) {
      step.boxes.clear();
      for (auto const t : lists_[at(s)])
        if (step.take_boxes(t, steps_left_)) mark(step);
      if (gave_up()) return true;
    }
  return true;
}

void AwaitedTiles::mark(Step const& step) {
  auto const grid = step.relation.producer_grid();
  auto& flags = awaited_[at(step.producer)];
  auto& list = lists_[at(step.producer)];
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

}  // namespace tessera::check_detail
