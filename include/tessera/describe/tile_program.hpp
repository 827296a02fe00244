// SPDX-License-Identifier: Apache-2.0
// A TileExpr made flat, for evaluation at millions of tiles.
#pragma once

#include <cstdint>
#include <vector>

#include "../sync/tile.cuh"
#include "tile_expr.hpp"

namespace tessera {

/// Gives the same values as TileExpr::evaluate. Precondition: the expression's dimensions are below
/// k_max_rank. Arithmetic wraps at 64 bits instead of overflowing.
class TileProgram {
 public:
  explicit TileProgram(TileExpr const& expr);

  std::int64_t evaluate(int const (&at)[k_max_rank]) const {
    if (!instructions_.empty()) return run(at);
    auto sum = constant_;
    for (int d = 0; d < k_max_rank; ++d) sum += coefficient_[d] * static_cast<std::uint64_t>(at[d]);
    return static_cast<std::int64_t>(sum);
  }

  /// Does the value depend on this dimension, as written?
  bool uses(int dimension) const { return uses_[dimension]; }

 private:
  struct Instruction {
    TileExpr::Op op;
    std::int64_t value;
  };

  bool fold(TileExpr const& expr, std::uint64_t factor);
  void flatten(TileExpr const& expr);
  std::int64_t run(int const (&at)[k_max_rank]) const;

  std::vector<Instruction> instructions_;  // postfix; empty: the affine form below is all
  std::uint64_t constant_ = 0;
  std::uint64_t coefficient_[k_max_rank] = {};
  bool uses_[k_max_rank] = {};
};

}  // namespace tessera
