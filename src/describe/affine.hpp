// SPDX-License-Identifier: Apache-2.0
// Builds quasi-affine expressions over a consumer grid and simplifies them on the way, using what is known
// of the coordinates' ranges, so that dependences written as plain geometry come out short and exact.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "tessera/describe/pipeline.hpp"

namespace tessera {

/// sum(coefficient * atom) + constant; atoms are dimensions, quotients, remainders, minima, maxima.
struct Linear {
  std::vector<std::pair<TileExpr, std::int64_t>> terms;
  std::int64_t constant = 0;

  Linear() = default;
  Linear(std::int64_t c) : constant(c) {}  // NOLINT: numbers are linear forms
  explicit Linear(TileExpr atom) { terms.emplace_back(std::move(atom), 1); }
};
Linear operator+(Linear a, Linear const& b);
Linear operator*(Linear a, std::int64_t factor);
Linear operator-(Linear a, Linear const& b);
TileExpr to_expr(Linear const& form);

/// Knows that coordinate d lies in [0, extents[d]).
class AffineSpace {
 public:
  explicit AffineSpace(std::vector<std::int64_t> extents) : extents_(std::move(extents)) {}

  /// A coordinate; 0 for a dimension of extent 1 or one that the grid does not have.
  Linear dimension(std::size_t index) const;
  Linear floor_div(Linear const& a, std::int64_t divisor) const;  ///< divisor > 0
  Linear ceil_div(Linear const& a, std::int64_t divisor) const;
  Linear modulo(Linear const& a, std::int64_t divisor) const;
  Linear minimum(Linear const& a, Linear const& b) const;
  Linear maximum(Linear const& a, Linear const& b) const;

  struct Interval {
    std::int64_t least, most;
  };
  Interval bounds(Linear const& form) const;

  /// Tiles of size `tile` that hold an element of [max(lower), min(upper)), out of tiles that cover the
  /// tensor. Exact, also where the interval may be empty, unless the caller knows that it never is.
  TileRange covering(std::vector<Linear> const& lower, std::vector<Linear> const& upper, std::int64_t tile,
                     bool never_empty = false) const;
  /// The same for [begin, end), where `length` <= 0 says that there is nothing to read.
  TileRange covering_unless_empty(Linear const& begin, Linear const& end, Linear const& length,
                                  std::int64_t tile) const;

 private:
  Interval bounds(TileExpr const& expr) const;

  std::vector<std::int64_t> extents_;
};

}  // namespace tessera
