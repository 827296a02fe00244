// SPDX-License-Identifier: Apache-2.0
// How many tiles lie in a few boxes that may overlap.
#pragma once

#include <cstdint>
#include <span>

#include "tessera/describe/tile_relation.hpp"

namespace tessera::check_detail {

/// Tiles in the union of the boxes, over the first `rank` dimensions. Adds the work that it did to
/// `steps`; gives up with a wrong result once `steps` passes `limit`.
std::int64_t union_size(std::span<TileRelation::Box const> boxes, int rank, std::int64_t& steps,
                        std::int64_t limit);

}  // namespace tessera::check_detail
