// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "describe/magnitude.hpp"
#include "tessera/describe/dsl.hpp"

namespace tessera {
namespace {

bool is_constant(TileExpr const& expr) { return expr.op == TileExpr::Op::constant; }

}  // namespace

Dim::Dim(std::int64_t constant) : expr_(TileExpr::constant(constant)) {
  if (constant < -k_largest_constant || constant > k_largest_constant) {
    expr_ = TileExpr::constant(0);
    fail("E0135", fmt::format("the constant {} is too large for a tile expression", constant));
  }
}

DimExtent Dim::with_extent(std::int64_t extent) const {
  auto const plain = owner_ != nullptr && expr_.op == TileExpr::Op::dimension;
  return {plain ? owner_ : nullptr, plain ? static_cast<int>(expr_.value) : -1, extent};
}

void Dim::fail(char const* code, std::string message) {
  if (!problem_) problem_ = Problem{code, std::move(message)};
}

Dim Dim::combine(Dim const& a, Dim const& b, TileExpr (*operation)(TileExpr, TileExpr)) {
  Dim result(a.owner_ != nullptr ? a.owner_ : b.owner_, TileExpr());
  result.problem_ = a.problem_ ? a.problem_ : b.problem_;
  if (a.owner_ != nullptr && b.owner_ != nullptr && a.owner_ != b.owner_)
    result.fail("E0134", "an expression mixes dimensions of two pipelines");
  if (result.problem_) return result;
  if (magnitude(a.expr_) + magnitude(b.expr_) > k_largest_magnitude)
    result.fail("E0135", "an expression can leave 64-bit arithmetic");
  else
    result.expr_ = operation(a.expr_, b.expr_);
  return result;
}

Dim operator+(Dim const& a, Dim const& b) {
  return Dim::combine(a, b, [](TileExpr l, TileExpr r) { return std::move(l) + std::move(r); });
}

Dim operator-(Dim const& a, Dim const& b) {
  return Dim::combine(a, b, [](TileExpr l, TileExpr r) { return std::move(l) - std::move(r); });
}

Dim operator-(Dim const& a) { return Dim(0) - a; }

Dim operator*(Dim const& a, Dim const& b) {
  if (!is_constant(a.expr_) && !is_constant(b.expr_)) {
    auto result = a + b;  // for its owner and problems
    result.fail("E0135", "a product of two dimensions is not affine: one side must be a constant");
    return result;
  }
  Dim const& factor = is_constant(b.expr_) ? b : a;
  Dim const& other = is_constant(b.expr_) ? a : b;
  Dim result(other.owner_, other.expr_);
  result.problem_ = other.problem_ ? other.problem_ : factor.problem_;
  if (magnitude(other.expr_) * magnitude(factor.expr_) > k_largest_magnitude)
    result.fail("E0135", "an expression can leave 64-bit arithmetic");
  if (!result.problem_) result.expr_ = other.expr_ * factor.expr_.value;
  return result;
}

Dim operator/(Dim const& a, std::int64_t divisor) {
  auto result = a;
  if (divisor < 1 || divisor > k_largest_constant)
    result.fail("E0135", fmt::format("division by {}: only by a constant of 1 or more", divisor));
  else
    result.expr_ = floor_div(a.expr_, divisor);
  return result;
}

Dim operator%(Dim const& a, std::int64_t divisor) {
  auto result = a;
  if (divisor < 1 || divisor > k_largest_constant)
    result.fail("E0135", fmt::format("modulo by {}: only by a constant of 1 or more", divisor));
  else
    result.expr_ = modulo(a.expr_, divisor);
  return result;
}

Dim floor(Dim const& quotient) { return quotient; }

Dim min(Dim const& a, Dim const& b) { return Dim::combine(a, b, minimum); }
Dim max(Dim const& a, Dim const& b) { return Dim::combine(a, b, maximum); }

}  // namespace tessera
