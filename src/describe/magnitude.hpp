// SPDX-License-Identifier: Apache-2.0
// Keeps expressions that people write inside 64-bit arithmetic.
#pragma once

#include "tessera/describe/tile_expr.hpp"

namespace tessera {

/// Largest absolute value that evaluation may reach, intermediate results included.
constexpr double k_largest_magnitude = 1152921504606846976.0;  // 2^60
/// Largest constant, factor or divisor in an expression.
constexpr std::int64_t k_largest_constant = std::int64_t{1} << 31;

/// An upper bound of |expr| for coordinates below 2^31.
double magnitude(TileExpr const& expr);

}  // namespace tessera
