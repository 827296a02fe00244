// SPDX-License-Identifier: Apache-2.0
// Quasi-affine integer expressions over a consumer tile's coordinates: the language of dependences.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tessera {

/// An immutable expression tree. `dimension` refers to the consumer grid's dimension by index.
/// Division and modulo are by positive constants and round towards minus infinity (floor), as in isl.
/// Multiplication is by a constant only.
struct TileExpr {
  enum class Op { constant, dimension, add, multiply, floor_div, modulo, minimum, maximum };

  Op op = Op::constant;
  std::int64_t value = 0;           ///< the constant, the dimension's index, the factor or the divisor
  std::vector<TileExpr> arguments;  ///< two for add, minimum, maximum; one for multiply, floor_div, modulo

  static TileExpr constant(std::int64_t value);
  static TileExpr dimension(int index);

  /// Value at a tile; `at` has one coordinate per consumer dimension. Precondition: the expression's
  /// dimensions are inside `at`. 64-bit arithmetic.
  std::int64_t evaluate(std::span<int const> at) const;

  bool operator==(TileExpr const&) const = default;
};

TileExpr operator+(TileExpr a, TileExpr b);
TileExpr operator-(TileExpr a, TileExpr b);
TileExpr operator*(TileExpr a, std::int64_t factor);
TileExpr floor_div(TileExpr a, std::int64_t divisor);  ///< precondition: divisor > 0
TileExpr modulo(TileExpr a, std::int64_t divisor);     ///< precondition: divisor > 0
TileExpr minimum(TileExpr a, TileExpr b);
TileExpr maximum(TileExpr a, TileExpr b);

/// Text such as "floor(x/9) + 24", with the given dimension names, in the syntax that
/// parse_tile_expr (describe) and isl both read.
std::string to_text(TileExpr const& expr, std::span<std::string const> dimension_names);

}  // namespace tessera
