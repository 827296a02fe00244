// SPDX-License-Identifier: Apache-2.0
// Deals the tiles of a loop's period to the workers of a persistent launch.
#pragma once

#include <vector>

#include "../sync/dealt_tiles.cuh"

namespace tessera {

/// A stage of the period.
struct StageToDeal {
  long long tiles = 0;  ///< below 2^31
  long long bytes = 1;  ///< that one of them loads, 0 to k_most_tile_bytes
  bool meet = false;    ///< tiles wait for one another: no worker gets more than an even share
};
constexpr long long k_most_tile_bytes = 1LL << 40;

/// DealtLists, on the host.
struct DealtTables {
  std::vector<DealtTile> tiles;
  int pitch = 0;
  int periods = 1;
  bool shared = false;

  DealtLists lists(DealtTile const* tiles_at) const { return {tiles_at, pitch, periods, shared}; }
};

/// A list for each worker. Tiles are dealt in the order of their tickets, stage by stage, each to the worker
/// with the fewest bytes so far; among equals to the one that has been without for longest, so that tiles
/// which are all alike go round in turns. What one stage leaves uneven the next one evens out. The lists
/// cover as many periods as it takes until all workers have the same bytes, or as have 2^15 tiles in all.
///
/// Whoever has fewer bytes than others is ahead of them only by what it could load meanwhile, without waiting
/// for their tiles: of a stage it gets at most `bytes_ahead` more than an even share. Without this limit a
/// worker that got no tile of a large stage would have to compute many small tiles of the next one alone,
/// and whoever reads these would wait for it.
///
/// In each list tickets ascend, so that nothing gets stuck if all workers are resident: every wait is for an
/// earlier ticket. At the end of the list no two workers differ by more than the largest tile's bytes. A list
/// that is uneven there is repeated with the same workers ahead: after n repetitions they differ by up to n
/// of the largest tiles.
/// Precondition: fewer than 2^31 tiles, 1 worker or more.
DealtTables deal(std::vector<StageToDeal> const& stages, int workers, long long bytes_ahead);

/// A tile that no block computes: of a stage of the body, in one iteration of every launch. For tests of what
/// is said where tiles wait for one that never comes; nothing of it is in a kernel.
struct MissedTile {
  int stage = 0;
  int iteration = 0;
  int tile = 0;
};

/// The same lists, repeated as often as it takes to cover the tile's period, without the tile. For tests: who
/// waits for it meets a deadline. Precondition: lists of workers, not one that all share.
DealtTables without(DealtTables const& dealt, DealtTile const& missed);

/// One list of all tiles of the period, of which workers draw in the order of tickets.
DealtTables deal_as_queue(std::vector<StageToDeal> const& stages);

}  // namespace tessera
