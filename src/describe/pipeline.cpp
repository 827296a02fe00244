// SPDX-License-Identifier: Apache-2.0
#include "tessera/describe/pipeline.hpp"

#include <cstddef>

namespace tessera {

std::int64_t Stage::tiles() const {
  std::int64_t n = 1;
  for (auto const& dim : grid) n *= dim.extent;
  return n;
}

TileGrid Stage::tile_grid() const {
  TileGrid result;
  result.rank = static_cast<int>(grid.size());
  for (std::size_t d = 0; d < grid.size() && d < k_max_rank; ++d)
    result.extent[d] = static_cast<int>(grid[d].extent);
  return result;
}

std::vector<std::string> Stage::dimension_names() const {
  std::vector<std::string> names;
  for (auto const& dim : grid) names.push_back(dim.name);
  return names;
}

int find_stage(Pipeline const& pipeline, std::string const& name) {
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s)
    if (pipeline.stages[s].name == name) return static_cast<int>(s);
  return -1;
}

std::string tile_name(Stage const& stage, std::int64_t linear_tile) {
  auto const grid = stage.tile_grid();
  auto const tile = tile_of(grid, linear_tile);
  std::string text = stage.name + "(";
  for (int d = 0; d < grid.rank; ++d) {
    if (d > 0) text += ", ";
    text += std::to_string(tile.at[d]);
  }
  return text + ")";
}

}  // namespace tessera
