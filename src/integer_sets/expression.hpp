// SPDX-License-Identifier: Apache-2.0
// TileExpr -> isl. Private to integer_sets.
#pragma once

#include <isl/aff_type.h>
#include <isl/space_type.h>

#include "tessera/describe/tile_expr.hpp"
#include "tessera/sync/tile.cuh"

namespace tessera::integer_sets {

/// Where coordinate `dimension` stands among a grid's set dimensions. The last one comes first, so
/// that isl's lexicographic order is the launch order.
inline int position_of(TileGrid const& grid, int dimension) { return grid.rank - 1 - dimension; }

/// The expression over a set space whose first dimensions are the consumer's. `space` is kept.
isl_pw_aff* expression_over(isl_space* space, TileGrid const& consumer, TileExpr const& expr);

}  // namespace tessera::integer_sets
