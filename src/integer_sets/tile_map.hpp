// SPDX-License-Identifier: Apache-2.0
// Relations between the tiles of two grids, as sets of integers: exact for grids of any size, because
// nothing is enumerated. The work is done by isl; nobody above sees it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "tessera/describe/pipeline.hpp"

struct isl_ctx;
struct isl_map;

namespace tessera::integer_sets {

/// A limit on the work that all maps made with it may do together, counted in isl's operations
/// (about 10^6 a second). Past it every answer is "gave up": no input can hang the caller.
class Limit {
 public:
  explicit Limit(unsigned long operations);

 private:
  friend class TileMap;
  std::shared_ptr<isl_ctx> context_;
};

/// Coordinates of a tile, or of a place outside its grid; unused dimensions are 0.
using Point = std::array<std::int64_t, k_max_rank>;

struct PointPair {
  Point from{};
  Point to{};

  bool operator==(PointPair const&) const = default;
};

/// Which of the tiles that a dependence names belong to its map.
enum class Keep {
  inside,   ///< those that exist
  outside,  ///< those that do not: no clamped range ever names one
};

/// A set of (from, to) pairs. Immutable and cheap to copy. A map that isl gave up on stays given up
/// through every operation.
class TileMap {
 public:
  static TileMap none(Limit const& limit, TileGrid const& from, TileGrid const& to);
  static TileMap everything(Limit const& limit, TileGrid const& from, TileGrid const& to);
  static TileMap same_tile(Limit const& limit, TileGrid const& grid);
  /// consumer tile -> producer tiles. Precondition: ranges and expressions fit the grids' ranks,
  /// divisors are positive.
  static TileMap reads(Limit const& limit, TileGrid const& consumer, TileGrid const& producer,
                       std::span<Access const> accesses, Keep keep);

  TileMap then(TileMap const& next) const;  ///< from -> to of next, over what both share
  TileMap inverse() const;
  TileMap united(TileMap const& other) const;
  TileMap without(TileMap const& other) const;

  bool gave_up() const { return map_ == nullptr; }
  /// nullopt: gave up, now or before.
  std::optional<bool> empty() const;
  /// The first pair in launch order: smallest linear `from`, then smallest linear `to` (the last
  /// dimension counts most). Also nullopt if there is none.
  std::optional<PointPair> first() const;
  /// Number of distinct `to`.
  std::optional<std::int64_t> count_targets() const;

 private:
  TileMap(std::shared_ptr<isl_ctx> context, isl_map* map, int from_rank, int to_rank);

  std::shared_ptr<isl_ctx> context_;
  std::shared_ptr<isl_map> map_;
  int from_rank_ = 0;
  int to_rank_ = 0;
};

}  // namespace tessera::integer_sets
