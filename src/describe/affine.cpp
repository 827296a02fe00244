// SPDX-License-Identifier: Apache-2.0
#include "describe/affine.hpp"

#include <algorithm>
#include <numeric>

namespace tessera {
namespace {

std::int64_t floor_of(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

// Longer than any grid (extents are 31 bits) and small enough that its product with an element count stays
// inside 64 bits.
constexpr std::int64_t k_longer_than_any_grid = std::int64_t{1} << 31;

}  // namespace

Linear operator+(Linear a, Linear const& b) {
  for (auto const& [atom, coefficient] : b.terms) {
    auto const same = std::find_if(a.terms.begin(), a.terms.end(),
                                   [&, wanted = &atom](auto const& term) { return term.first == *wanted; });
    if (same == a.terms.end())
      a.terms.emplace_back(atom, coefficient);
    else if ((same->second += coefficient) == 0)
      a.terms.erase(same);
  }
  a.constant += b.constant;
  return a;
}

Linear operator*(Linear a, std::int64_t factor) {
  if (factor == 0) return {};
  for (auto& term : a.terms) term.second *= factor;
  a.constant *= factor;
  return a;
}

Linear operator-(Linear a, Linear const& b) { return std::move(a) + b * -1; }

TileExpr to_expr(Linear const& form) {
  // Of many terms in halves: a chain of additions would be as deep as they are many.
  constexpr std::ptrdiff_t k_chain = 8;
  using Place = std::vector<std::pair<TileExpr, std::int64_t>>::const_iterator;
  auto const sum_of = [](auto const& self, Place begin, Place end) -> TileExpr {
    if (end - begin > k_chain) {
      auto const middle = begin + (end - begin) / 2;
      return self(self, begin, middle) + self(self, middle, end);
    }
    auto sum = TileExpr::constant(0);
    for (auto term = begin; term != end; ++term) sum = std::move(sum) + term->first * term->second;
    return sum;
  };
  return sum_of(sum_of, form.terms.begin(), form.terms.end()) + TileExpr::constant(form.constant);
}

Linear AffineSpace::dimension(std::size_t index) const {
  if (index >= extents_.size() || extents_[index] == 1) return {};
  return Linear(TileExpr::dimension(static_cast<int>(index)));
}

Linear AffineSpace::floor_div(Linear const& a, std::int64_t divisor) const {
  // floor((d*q + rest)/d) = q + floor(rest/d), and floor((g*r + c)/(g*d)) = floor((r + floor(c/g))/d).
  Linear quotient(floor_of(a.constant, divisor));
  Linear rest(a.constant - quotient.constant * divisor);
  auto common = divisor;
  for (auto const& [atom, coefficient] : a.terms) {
    if (coefficient % divisor == 0) {
      quotient.terms.emplace_back(atom, coefficient / divisor);
    } else {
      rest.terms.emplace_back(atom, coefficient);
      common = std::gcd(common, coefficient);
    }
  }
  if (rest.terms.empty()) return quotient;
  for (auto& term : rest.terms) term.second /= common;
  rest.constant = floor_of(rest.constant, common);
  auto const reduced = divisor / common;
  auto const range = bounds(rest);
  if (floor_of(range.least, reduced) == floor_of(range.most, reduced))
    return quotient + Linear(floor_of(range.least, reduced));
  return quotient + Linear(tessera::floor_div(to_expr(rest), reduced));
}

Linear AffineSpace::ceil_div(Linear const& a, std::int64_t divisor) const {
  return floor_div(a + Linear(divisor - 1), divisor);
}

Linear AffineSpace::modulo(Linear const& a, std::int64_t divisor) const {
  auto const range = bounds(a);
  auto const turns = floor_of(range.least, divisor);
  if (turns == floor_of(range.most, divisor)) return a - Linear(turns * divisor);
  // (g*r + c) mod (g*d) = g*((r + floor(c/g)) mod d) + c mod g.
  Linear rest(a.constant - floor_of(a.constant, divisor) * divisor);
  auto common = divisor;
  for (auto const& [atom, coefficient] : a.terms) {
    if (coefficient % divisor == 0) continue;
    rest.terms.emplace_back(atom, coefficient);
    common = std::gcd(common, coefficient);
  }
  if (rest.terms.empty()) return rest;
  for (auto& term : rest.terms) term.second /= common;
  auto const left_over = rest.constant % common;
  rest.constant /= common;
  return Linear(tessera::modulo(to_expr(rest), divisor / common)) * common + left_over;
}

Linear AffineSpace::minimum(Linear const& a, Linear const& b) const {
  auto const difference = bounds(a - b);
  if (difference.most <= 0) return a;
  if (difference.least >= 0) return b;
  return Linear(tessera::minimum(to_expr(a), to_expr(b)));
}

Linear AffineSpace::maximum(Linear const& a, Linear const& b) const {
  auto const difference = bounds(a - b);
  if (difference.least >= 0) return a;
  if (difference.most <= 0) return b;
  return Linear(tessera::maximum(to_expr(a), to_expr(b)));
}

AffineSpace::Interval AffineSpace::bounds(Linear const& form) const {
  Interval sum{form.constant, form.constant};
  for (auto const& [atom, coefficient] : form.terms) {
    auto const range = bounds(atom);
    sum.least += coefficient * (coefficient > 0 ? range.least : range.most);
    sum.most += coefficient * (coefficient > 0 ? range.most : range.least);
  }
  return sum;
}

AffineSpace::Interval AffineSpace::bounds(TileExpr const& e) const {
  auto const of = [&](std::size_t i) { return bounds(e.arguments[i]); };
  switch (e.op) {
    case TileExpr::Op::constant: return {e.value, e.value};
    case TileExpr::Op::dimension: return {0, extents_[static_cast<std::size_t>(e.value)] - 1};
    case TileExpr::Op::add: return {of(0).least + of(1).least, of(0).most + of(1).most};
    case TileExpr::Op::multiply:
      return e.value > 0 ? Interval{of(0).least * e.value, of(0).most * e.value}
                         : Interval{of(0).most * e.value, of(0).least * e.value};
    case TileExpr::Op::floor_div: return {floor_of(of(0).least, e.value), floor_of(of(0).most, e.value)};
    case TileExpr::Op::modulo: return {0, e.value - 1};
    case TileExpr::Op::minimum: return {std::min(of(0).least, of(1).least), std::min(of(0).most, of(1).most)};
    case TileExpr::Op::maximum: return {std::max(of(0).least, of(1).least), std::max(of(0).most, of(1).most)};
  }
  return {0, 0};
}

TileRange AffineSpace::covering(std::vector<Linear> const& lower, std::vector<Linear> const& upper,
                                std::int64_t tile, bool never_empty) const {
  auto const aligned = [&](Linear const& form) {
    return form.constant % tile == 0 && std::all_of(form.terms.begin(), form.terms.end(),
                                                    [&](auto const& t) { return t.second % tile == 0; });
  };
  // Rounding to tiles keeps an empty interval empty if one of the two bounds that cross is a tile's edge.
  bool guard = false;
  auto low = lower.front();
  auto high = upper.front();
  auto begin = floor_div(low, tile);
  auto end = ceil_div(high, tile);
  for (auto const& l : lower) {
    low = maximum(low, l);
    begin = maximum(begin, floor_div(l, tile));
    for (auto const& u : upper) guard = guard || (bounds(u - l).least <= 0 && !aligned(u) && !aligned(l));
  }
  for (auto const& u : upper) {
    high = minimum(high, u);
    end = minimum(end, ceil_div(u, tile));
  }
  if (guard && !never_empty) return covering_unless_empty(low, high, high - low, tile);
  return {to_expr(begin), to_expr(end), false};
}

TileRange AffineSpace::covering_unless_empty(Linear const& begin, Linear const& end, Linear const& length,
                                             std::int64_t tile) const {
  auto const first = floor_div(begin, tile);
  auto const last = ceil_div(end, tile);
  if (bounds(length).least > 0) return {to_expr(first), to_expr(last), false};
  auto const room = maximum(length, 0) * k_longer_than_any_grid;
  return {to_expr(first), to_expr(minimum(last, first + room)), false};
}

}  // namespace tessera
