// SPDX-License-Identifier: Apache-2.0
#include "tessera/plan/orders.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <unordered_set>

#include "tessera/describe/tile_relation.hpp"

namespace tessera {
namespace {

/// Appends tiles that were not listed before.
struct Listing {
  std::vector<std::int32_t> table;
  std::vector<bool> listed;

  explicit Listing(std::int64_t tiles) : listed(static_cast<std::size_t>(tiles)) {
    table.reserve(listed.size());
  }
  void add(std::int64_t tile) {
    if (listed[static_cast<std::size_t>(tile)]) return;
    listed[static_cast<std::size_t>(tile)] = true;
    table.push_back(static_cast<std::int32_t>(tile));
  }
  bool full() const { return table.size() == listed.size(); }
};

void list_as_needed(Pipeline const& pipeline, Dependence const& dependence, TileOrder const& consumer_order,
                    Listing& listing) {
  TileRelation const relation(pipeline, dependence);
  // Neighbours of a row read the same boxes: only the first of them adds anything.
  std::unordered_set<std::string> done;
  std::vector<TileRelation::Box> boxes;
  std::vector<std::int64_t> tiles;
  for (std::int64_t position = 0; position < relation.consumer_grid().tiles() && !listing.full();
       ++position) {
    auto const consumer = consumer_order.tile_at(position);
    relation.boxes_of(consumer, boxes);
    std::string key(reinterpret_cast<char const*>(boxes.data()), boxes.size() * sizeof(TileRelation::Box));
    if (!done.insert(std::move(key)).second) continue;
    relation.producers_of(consumer, tiles);
    for (auto const tile : tiles) listing.add(tile);
  }
}

int clusters(std::int64_t tiles, int of_cluster) {
  return static_cast<int>((tiles + of_cluster - 1) / of_cluster);
}

/// Height of a band in rows of clusters.
int band_height(Stage const& stage, int rows, int cluster_rows) {
  int const high = clusters(stage.grid.size() > 1 ? stage.grid[1].extent : 1, cluster_rows);
  return std::clamp(rows <= 0 ? high : clusters(rows, cluster_rows), 1, high);
}

}  // namespace

bool knows_band(Stage const& stage, int rows) {
  auto const& known = stage.can.heights;
  auto const height = [&](int of) { return band_height(stage, of, stage.cluster_rows); };
  return known.empty() ||
         std::any_of(known.begin(), known.end(), [&](int one) { return height(one) == height(rows); });
}

TileOrder make_order(std::string name, std::vector<std::int32_t> table) {
  for (std::size_t i = 0; i < table.size(); ++i)
    if (table[i] != static_cast<std::int32_t>(i)) return {std::move(name), std::move(table), std::nullopt};
  return {};
}

TileOrder make_band_order(Stage const& stage, Bands const& bands) {
  auto const extent = [&](std::size_t d) {
    return d < stage.grid.size() ? static_cast<int>(stage.grid[d].extent) : 1;
  };
  int const columns = extent(0), rows = extent(1);
  int const high = clusters(rows, bands.cluster_rows), wide = clusters(columns, bands.cluster_columns);
  int const height = band_height(stage, bands.rows, bands.cluster_rows);
  std::vector<std::int32_t> table;
  auto const plane = std::int64_t{columns} * rows;
  for (std::int64_t base = 0; base < stage.tiles(); base += plane)
    for (int first = 0; first < high; first += height) {
      int const here = std::min(height, high - first);
      for (int i = 0; i < here * wide; ++i)
        for (int c = 0; c < bands.cluster_rows * bands.cluster_columns; ++c) {
          int const row = (first + i % here) * bands.cluster_rows + c % bands.cluster_rows;
          int const column = i / here * bands.cluster_columns + c / bands.cluster_rows;
          if (row < rows && column < columns)
            table.push_back(static_cast<std::int32_t>(base + std::int64_t{row} * columns + column));
        }
    }
  auto const name = bands.rows <= 0 ? "columns" : fmt::format("bands of {}", bands.rows);
  auto order = make_order(name, std::move(table));
  order.name = name;
  order.bands = bands;
  return order;
}

bool is_permutation_of(TileOrder const& order, std::int64_t tiles) {
  if (order.table.empty()) return true;
  if (static_cast<std::int64_t>(order.table.size()) != tiles) return false;
  std::vector<bool> seen(order.table.size());
  for (auto const tile : order.table) {
    if (tile < 0 || tile >= tiles || seen[static_cast<std::size_t>(tile)]) return false;
    seen[static_cast<std::size_t>(tile)] = true;
  }
  return true;
}

std::vector<TileOrder> dependence_orders(Pipeline const& pipeline) {
  std::vector<TileOrder> orders(pipeline.stages.size());
  for (std::size_t s = pipeline.stages.size(); s-- > 0;) {
    std::vector<Dependence const*> readers;
    for (auto const& dependence : pipeline.dependences)
      if (dependence.producer == static_cast<int>(s)) readers.push_back(&dependence);
    if (readers.empty()) continue;
    std::stable_sort(readers.begin(), readers.end(),
                     [](auto const* a, auto const* b) { return a->consumer < b->consumer; });
    auto const tiles = pipeline.stages[s].tiles();
    Listing listing(tiles);
    for (auto const* reader : readers)
      list_as_needed(pipeline, *reader, orders[static_cast<std::size_t>(reader->consumer)], listing);
    for (std::int64_t tile = 0; tile < tiles && !listing.full(); ++tile) listing.add(tile);
    orders[s] = make_order("as needed", std::move(listing.table));
  }
  return orders;
}

}  // namespace tessera
