// SPDX-License-Identifier: Apache-2.0
#include "tessera/describe/tile_expr.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tessera {
namespace {

std::int64_t floor_divide(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

TileExpr node(TileExpr::Op op, std::int64_t value, std::vector<TileExpr> arguments) {
  return {op, value, std::move(arguments)};
}

bool is_constant(TileExpr const& e) { return e.op == TileExpr::Op::constant; }

std::vector<TileExpr> pair_of(TileExpr a, TileExpr b) {
  std::vector<TileExpr> both;
  both.reserve(2);
  both.push_back(std::move(a));
  both.push_back(std::move(b));
  return both;
}

std::vector<TileExpr> one_of(TileExpr a) {
  std::vector<TileExpr> one;
  one.push_back(std::move(a));
  return one;
}

}  // namespace

TileExpr TileExpr::constant(std::int64_t value) { return node(Op::constant, value, {}); }
TileExpr TileExpr::dimension(int index) { return node(Op::dimension, index, {}); }

std::int64_t TileExpr::evaluate(std::span<int const> at) const {
  switch (op) {
    case Op::constant: return value;
    case Op::dimension: return at[static_cast<std::size_t>(value)];
    case Op::add: return arguments[0].evaluate(at) + arguments[1].evaluate(at);
    case Op::multiply: return arguments[0].evaluate(at) * value;
    case Op::floor_div: return floor_divide(arguments[0].evaluate(at), value);
    case Op::modulo: {
      auto const a = arguments[0].evaluate(at);
      return a - floor_divide(a, value) * value;
    }
    case Op::minimum: return std::min(arguments[0].evaluate(at), arguments[1].evaluate(at));
    case Op::maximum: return std::max(arguments[0].evaluate(at), arguments[1].evaluate(at));
  }
  return 0;
}

// Constants are folded and neutral elements dropped, so that equal descriptions compare equal and print
// short.

TileExpr operator+(TileExpr a, TileExpr b) {
  if (is_constant(a)) std::swap(a, b);
  if (is_constant(b)) {
    if (is_constant(a)) return TileExpr::constant(a.value + b.value);
    if (b.value == 0) return a;
    if (a.op == TileExpr::Op::add && is_constant(a.arguments[1]))
      return a.arguments[0] + TileExpr::constant(a.arguments[1].value + b.value);
  }
  return node(TileExpr::Op::add, 0, pair_of(std::move(a), std::move(b)));
}

TileExpr operator-(TileExpr a, TileExpr b) { return std::move(a) + std::move(b) * -1; }

TileExpr operator*(TileExpr a, std::int64_t factor) {
  if (is_constant(a)) return TileExpr::constant(a.value * factor);
  if (factor == 1) return a;
  if (factor == 0) return TileExpr::constant(0);
  return node(TileExpr::Op::multiply, factor, one_of(std::move(a)));
}

TileExpr floor_div(TileExpr a, std::int64_t divisor) {
  if (divisor == 1) return a;
  if (is_constant(a)) return TileExpr::constant(floor_divide(a.value, divisor));
  return node(TileExpr::Op::floor_div, divisor, one_of(std::move(a)));
}

TileExpr modulo(TileExpr a, std::int64_t divisor) {
  if (divisor == 1) return TileExpr::constant(0);
  if (is_constant(a)) return TileExpr::constant(a.value - floor_divide(a.value, divisor) * divisor);
  return node(TileExpr::Op::modulo, divisor, one_of(std::move(a)));
}

TileExpr minimum(TileExpr a, TileExpr b) {
  if (is_constant(a) && is_constant(b)) return TileExpr::constant(std::min(a.value, b.value));
  if (a == b) return a;
  return node(TileExpr::Op::minimum, 0, pair_of(std::move(a), std::move(b)));
}

TileExpr maximum(TileExpr a, TileExpr b) {
  if (is_constant(a) && is_constant(b)) return TileExpr::constant(std::max(a.value, b.value));
  if (a == b) return a;
  return node(TileExpr::Op::maximum, 0, pair_of(std::move(a), std::move(b)));
}

// Parentheses keep the tree: parse_tile_expr builds the same one again.

std::string to_text(TileExpr const& e, std::span<std::string const> names) {
  using Op = TileExpr::Op;
  auto const argument = [&](std::size_t i) { return to_text(e.arguments[i], names); };
  auto const enclosed = [&](TileExpr const& a) {
    bool const compound = a.op == Op::add || a.op == Op::multiply;
    return compound ? "(" + to_text(a, names) + ")" : to_text(a, names);
  };
  switch (e.op) {
    case Op::constant: return std::to_string(e.value);
    case Op::dimension: return names[static_cast<std::size_t>(e.value)];
    case Op::add: {
      auto const& right = e.arguments[1];
      if (is_constant(right) && right.value < 0) return fmt::format("{} - {}", argument(0), -right.value);
      if (right.op == Op::multiply && right.value == -1)
        return fmt::format("{} - {}", argument(0), enclosed(right.arguments[0]));
      return fmt::format("{} + {}", argument(0), right.op == Op::add ? enclosed(right) : argument(1));
    }
    case Op::multiply: return fmt::format("{}*{}", e.value, enclosed(e.arguments[0]));
    case Op::floor_div: return fmt::format("floor(({})/{})", argument(0), e.value);
    case Op::modulo: return fmt::format("(({}) mod {})", argument(0), e.value);
    case Op::minimum: return fmt::format("min({}, {})", argument(0), argument(1));
    case Op::maximum: return fmt::format("max({}, {})", argument(0), argument(1));
  }
  return {};
}

}  // namespace tessera
