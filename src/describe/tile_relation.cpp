// SPDX-License-Identifier: Apache-2.0
#include "tessera/describe/tile_relation.hpp"

#include <algorithm>
#include <cstddef>

namespace tessera {

TileRelation::TileRelation(Pipeline const& pipeline, Dependence const& dependence)
    : consumer_(pipeline.stages[static_cast<std::size_t>(dependence.consumer)].tile_grid()),
      producer_(pipeline.stages[static_cast<std::size_t>(dependence.producer)].tile_grid()) {
  for (auto const& access : dependence.accesses)
    for (auto const& range : access.ranges)
      ranges_.push_back({TileProgram(range.begin), TileProgram(range.end)});
}

void TileRelation::boxes_of(std::int64_t consumer_tile, std::vector<Box>& out) const {
  out.clear();
  auto const tile = tile_of(consumer_, consumer_tile);
  auto const rank = static_cast<std::size_t>(producer_.rank);
  for (std::size_t first = 0; first < ranges_.size(); first += rank) {
    Box box;
    bool empty = false;
    for (int d = 0; d < k_max_rank; ++d) {
      if (d >= producer_.rank) {
        box.begin[d] = 0;
        box.end[d] = 1;
        continue;
      }
      auto const& range = ranges_[first + static_cast<std::size_t>(d)];
      auto const begin = std::max<std::int64_t>(range.begin.evaluate(tile.at), 0);
      auto const end = std::min<std::int64_t>(range.end.evaluate(tile.at), producer_.extent[d]);
      if (begin >= end) {
        empty = true;
        break;
      }
      box.begin[d] = static_cast<int>(begin);
      box.end[d] = static_cast<int>(end);
    }
    if (!empty) out.push_back(box);
  }
}

bool TileRelation::uses(int dimension) const {
  return std::any_of(ranges_.begin(), ranges_.end(), [&](Range const& range) {
    return range.begin.uses(dimension) || range.end.uses(dimension);
  });
}

void TileRelation::producers_of(std::int64_t consumer_tile, std::vector<std::int64_t>& out) const {
  out.clear();
  std::vector<Box> boxes;
  boxes_of(consumer_tile, boxes);
  for (auto const& box : boxes) {
    Tile tile;
    for (tile.at[3] = box.begin[3]; tile.at[3] < box.end[3]; ++tile.at[3])
      for (tile.at[2] = box.begin[2]; tile.at[2] < box.end[2]; ++tile.at[2])
        for (tile.at[1] = box.begin[1]; tile.at[1] < box.end[1]; ++tile.at[1])
          for (tile.at[0] = box.begin[0]; tile.at[0] < box.end[0]; ++tile.at[0])
            out.push_back(linear_of(producer_, tile));
  }
  if (boxes.size() > 1) {
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
  }
}

}  // namespace tessera
