// SPDX-License-Identifier: Apache-2.0
#include "padding.hpp"

#include <algorithm>
#include <utility>

namespace tessera::simulation {
namespace {

/// Clusters of one plane of a stage's grid.
struct Clusters {
  std::int64_t columns, rows;  ///< of tiles
  std::int64_t cluster_columns, cluster_rows;

  Clusters(Stage const& stage, KernelTiming const& kernel)
      : columns(stage.grid[0].extent),
        rows(stage.grid[1].extent),
        cluster_columns(kernel.cluster_columns),
        cluster_rows(kernel.cluster_rows) {}

  static std::int64_t up(std::int64_t tiles, std::int64_t unit) { return (tiles + unit - 1) / unit; }
  std::int64_t wide() const { return up(columns, cluster_columns); }
  std::int64_t high() const { return up(rows, cluster_rows); }
  std::int64_t size() const { return cluster_columns * cluster_rows; }
  std::int64_t padding() const { return wide() * high() * size() - columns * rows; }
  /// Number of a tile's cluster, over all planes.
  std::int64_t of(std::int64_t tile) const {
    auto const column = tile % columns / cluster_columns, row = tile / columns % rows / cluster_rows;
    return (tile / (columns * rows) * high() + row) * wide() + column;
  }
  std::int64_t tiles_in(std::int64_t cluster) const {
    auto const column = cluster % wide() * cluster_columns, row = cluster / wide() % high() * cluster_rows;
    return std::min(cluster_columns, columns - column) * std::min(cluster_rows, rows - row);
  }
};

}  // namespace

std::int64_t blocks_that_pad(Stage const& stage, KernelTiming const& kernel) {
  if (stage.grid.size() < 2) return 0;
  Clusters const clusters(stage, kernel);
  return clusters.padding() * (stage.blocks() / (clusters.columns * clusters.rows));
}

std::vector<std::int64_t> with_padding(Stage const& stage, StagePlan const& planned,
                                       KernelTiming const& kernel) {
  Clusters const clusters(stage, kernel);
  auto const planes = stage.tiles() / (clusters.columns * clusters.rows);
  auto const all = clusters.wide() * clusters.high() * planes;
  std::vector<std::int32_t> seen(static_cast<std::size_t>(all * stage.splits));
  std::vector<std::int64_t> order;
  order.reserve(static_cast<std::size_t>(stage.blocks() + blocks_that_pad(stage, kernel)));
  for (std::int64_t position = 0; position < stage.blocks(); ++position) {
    order.push_back(position);
    auto const work = block_work(stage, planned, position);
    auto const cluster = clusters.of(work.tile);
    auto const tiles = clusters.tiles_in(cluster);
    if (++seen[static_cast<std::size_t>(cluster * stage.splits + work.split)] == tiles)
      order.insert(order.end(), static_cast<std::size_t>(clusters.size() - tiles), ~position);
  }
  return order;
}

}  // namespace tessera::simulation
