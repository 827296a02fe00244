// SPDX-License-Identifier: Apache-2.0
// In which order a stage's tiles are processed, so that what is waited for comes first.
#pragma once

#include <vector>

#include "plan.hpp"

namespace tessera {

/// One order per stage: the last stage (and every stage that nobody reads) row major; every other one so
/// that the tiles which one consumer tile needs are neighbours, in the order in which its consumers process
/// their tiles. Where several stages read one, the earliest comes first; tiles that nobody reads come last.
/// Precondition: the pipeline passed check().
std::vector<TileOrder> dependence_orders(Pipeline const& pipeline);

/// The order with this table; the identity becomes row major, with an empty table.
TileOrder make_order(std::string name, std::vector<std::int32_t> table);

/// The order of these bands over the first two dimensions of a stage's grid, "bands of 4 rows" or "columns".
/// Tiles that would only pad a cluster are left out. Further dimensions come one after the other.
TileOrder make_band_order(Stage const& stage, Bands const& bands);

/// Whether the stage's kernel knows bands of so many rows (0: all): that height comes out as one of its own.
bool knows_band(Stage const& stage, int rows);

/// True if every tile 0 ... tiles-1 is there exactly once (or the table is empty).
bool is_permutation_of(TileOrder const& order, std::int64_t tiles);

/// Tickets of one persistent launch in which a tile follows `lag` tickets after the last tile that it needs,
/// rather than after the whole stage before: all blocks of all stages once, each tile's producers before it.
/// Empty where that is stage by stage. `custom_order` holds for every stage; lag >= 0.
std::vector<Launch::Ticket> merged_tickets(Pipeline const& pipeline, std::vector<TileOrder> const& orders,
                                           std::vector<ReuseEdge> const& reuse_edges, std::int64_t lag);

}  // namespace tessera
