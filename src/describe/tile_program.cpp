// SPDX-License-Identifier: Apache-2.0
#include "tessera/describe/tile_program.hpp"

#include <algorithm>
#include <cstddef>

namespace tessera {
namespace {

std::int64_t floor_divide(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

std::int64_t wrap_add(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

std::int64_t wrap_multiply(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

}  // namespace

TileProgram::TileProgram(TileExpr const& expr) {
  auto const affine = fold(expr, 1);
  flatten(expr);
  if (affine) instructions_ = {};
}

/// Adds factor * expr to the affine form; false if the expression is not affine.
bool TileProgram::fold(TileExpr const& expr, std::uint64_t factor) {
  switch (expr.op) {
    case TileExpr::Op::constant: constant_ += factor * static_cast<std::uint64_t>(expr.value); return true;
    case TileExpr::Op::dimension: coefficient_[expr.value] += factor; return true;
    case TileExpr::Op::add: return fold(expr.arguments[0], factor) && fold(expr.arguments[1], factor);
    case TileExpr::Op::multiply:
      return fold(expr.arguments[0], factor * static_cast<std::uint64_t>(expr.value));
    default: return false;
  }
}

void TileProgram::flatten(TileExpr const& expr) {
  for (auto const& argument : expr.arguments) flatten(argument);
  if (expr.op == TileExpr::Op::dimension) uses_[expr.value] = true;
  instructions_.push_back({expr.op, expr.value});
}

std::int64_t TileProgram::run(int const (&at)[k_max_rank]) const {
  // A program of n instructions never holds more than (n + 1) / 2 values.
  constexpr std::size_t k_small = 32;
  std::int64_t small[k_small];
  std::vector<std::int64_t> large;
  auto* stack = small;
  if ((instructions_.size() + 1) / 2 > k_small) {
    large.resize((instructions_.size() + 1) / 2);
    stack = large.data();
  }

  auto* top = stack;  // one past the last value
  for (auto const& [op, value] : instructions_) {
    switch (op) {
      case TileExpr::Op::constant: *top++ = value; break;
      case TileExpr::Op::dimension: *top++ = at[value]; break;
      case TileExpr::Op::multiply: top[-1] = wrap_multiply(top[-1], value); break;
      case TileExpr::Op::floor_div: top[-1] = floor_divide(top[-1], value); break;
      case TileExpr::Op::modulo: top[-1] -= floor_divide(top[-1], value) * value; break;
      case TileExpr::Op::add: --top, top[-1] = wrap_add(top[-1], top[0]); break;
      case TileExpr::Op::minimum: --top, top[-1] = std::min(top[-1], top[0]); break;
      case TileExpr::Op::maximum: --top, top[-1] = std::max(top[-1], top[0]); break;
    }
  }
  return top[-1];
}

}  // namespace tessera
