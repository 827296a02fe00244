// SPDX-License-Identifier: Apache-2.0
// Tile expressions and ranges from text.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "pipeline.hpp"

namespace tessera {

/// The inverse of to_text(TileExpr), and what people write: "floor(x/9) + 24", "x/9" (rounded down),
/// "x % 4", "x mod 4", "2*(x + y) - 1", "min(x, 3)". E0138 names the column; its `where` is empty, for the
/// caller to fill. Constants are at most 2^31, results below 2^60 for coordinates below 2^31.
Expected<TileExpr> parse_tile_expr(std::string_view text, std::span<std::string const> dimension_names);

/// A range of one producer coordinate:
///   "x + 1"               that tile
///   "2*x : 2*x + 2"       half-open
///   "all"                 [0, extent)
///   "clamp(x - 1 : x + 2)"  cut to the producer's grid
Expected<TileRange> parse_tile_range(std::string_view text, std::span<std::string const> dimension_names,
                                     std::int64_t extent);

/// The inverse of parse_tile_range.
std::string to_text(TileRange const& range, std::span<std::string const> dimension_names,
                    std::int64_t extent);

}  // namespace tessera
