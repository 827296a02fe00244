// SPDX-License-Identifier: Apache-2.0
#include "describe/magnitude.hpp"

#include <algorithm>
#include <cmath>

namespace tessera {

double magnitude(TileExpr const& e) {
  auto const of = [&](std::size_t i) { return magnitude(e.arguments[i]); };
  auto const value = std::abs(static_cast<double>(e.value));
  switch (e.op) {
    case TileExpr::Op::constant: return value;
    case TileExpr::Op::dimension: return 2147483648.0;
    case TileExpr::Op::add: return of(0) + of(1);
    case TileExpr::Op::multiply: return of(0) * value;
    // Not smaller than the dividend, so that the bound also covers what is computed on the way.
    case TileExpr::Op::floor_div:
    case TileExpr::Op::modulo: return std::max(of(0), value);
    case TileExpr::Op::minimum:
    case TileExpr::Op::maximum: return std::max(of(0), of(1));
  }
  return 0;
}

}  // namespace tessera
