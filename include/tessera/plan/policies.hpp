// SPDX-License-Identifier: Apache-2.0
// Which producer tiles share a semaphore: every useful choice for a dependence, with what it costs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan.hpp"

namespace tessera {

/// One way to synchronize one dependence. Any product of dimension maps is sound, because a semaphore's
/// value counts every tile that maps to it; what differs is how much is waited for and how often.
struct Policy {
  std::string name;
  PolicyMap map;
  std::int64_t semaphores = 0;
  std::int64_t waits = 0;            ///< waits of all consumer blocks together, in one launch
  std::int64_t posts_per_value = 0;  ///< most posts that one semaphore counts to, splits included
  std::int64_t tiles_awaited = 0;    ///< most producer tiles that one consumer tile waits for
};

/// Per producer dimension: a semaphore for each tile, or one for the tiles that a consumer tile needs (all
/// of the dimension, runs of neighbours, or tiles at a stride); all combinations, finest first, none twice.
/// Precondition: `dependence` is an index into the dependences of a pipeline that check() accepted.
/// Where the dependence asks for a policy: that one, and no other.
std::vector<Policy> generate_policies(Pipeline const& pipeline, int dependence);

/// "TileSync", "RowSync", "StridedSync", "BatchedRowSync", "Conv2DTileSync", "GridSync" where the product
/// is one of the known, else one word per dimension: "EachAll", "Block4EachAll". A C++ identifier.
/// `convolution`: the dependence is between convolutions (reads a halo, or x/(R*S)).
/// Of a table "TableSync".
std::string policy_name(PolicyMap const& map, TileGrid const& producer, bool convolution);

/// True for the names that policy_name() may give to this map, on this grid or on one that a plan was resized
/// from: where a dimension has one tile, "each" and "all" are the same.
bool is_called(PolicyMap const& map, TileGrid const& producer, std::string const& name);

/// True when a dependence reads as a convolution does: a halo over the grid's border, or column x/(R*S).
bool reads_like_convolution(Dependence const& dependence);

/// The same map with one spelling per meaning (a block of everything is `all`, a run of one is `each`), so
/// that maps can be compared.
PolicyMap normalized(PolicyMap map, TileGrid const& producer);
bool same_map(PolicyMap const& a, PolicyMap const& b);

/// One semaphore for the whole grid.
PolicyMap whole_grid(TileGrid const& producer);

}  // namespace tessera
