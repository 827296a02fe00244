// SPDX-License-Identifier: Apache-2.0
#include "check/expressions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "check/limits.hpp"

namespace tessera::check_detail {
namespace {

struct Interval {
  __extension__ typedef __int128 Wide;
  Wide low;
  Wide high;
};

Interval::Wide floor_divide(Interval::Wide a, Interval::Wide b) { return a / b - (a % b < 0 ? 1 : 0); }

class Examination {
 public:
  explicit Examination(Stage const& consumer) : consumer_(consumer) {}

  std::optional<ExpressionFault> fault;

  /// Bounds of all values; meaningless once there is a fault.
  Interval interval_of(TileExpr const& expr, int depth) {
    if (++nodes_ > k_max_expression_nodes || depth > k_max_expression_depth) {
      blame("E0111", fmt::format("is too large: at most {} operations, nested {} deep",
                                 k_max_expression_nodes, k_max_expression_depth));
      return {};
    }
    if (expr.arguments.size() != arity(expr.op)) {
      blame("E0111", fmt::format("has an operation with {} arguments where {} belong", expr.arguments.size(),
                                 arity(expr.op)));
      return {};
    }
    Interval of[2] = {};
    for (std::size_t i = 0; i < expr.arguments.size(); ++i) {
      of[i] = interval_of(expr.arguments[i], depth + 1);
      if (fault) return {};
    }
    auto const result = combine(expr, of);
    if (!fault && (result.low < -k_max_expression_value || result.high > k_max_expression_value))
      blame("E0111", "can reach a value beyond +-2^61",
            "expressions count tiles, not elements or bytes; is a factor too large?");
    return result;
  }

 private:
  static std::size_t arity(TileExpr::Op op) {
    switch (op) {
      case TileExpr::Op::constant:
      case TileExpr::Op::dimension: return 0;
      case TileExpr::Op::multiply:
      case TileExpr::Op::floor_div:
      case TileExpr::Op::modulo: return 1;
      case TileExpr::Op::add:
      case TileExpr::Op::minimum:
      case TileExpr::Op::maximum: return 2;
    }
    return 0;
  }

  Interval combine(TileExpr const& expr, Interval const (&of)[2]) {
    auto const value = static_cast<Interval::Wide>(expr.value);
    switch (expr.op) {
      case TileExpr::Op::constant: return {value, value};
      case TileExpr::Op::dimension:
        if (value < 0 || value >= static_cast<Interval::Wide>(consumer_.grid.size())) {
          blame("E0105",
                fmt::format("uses dimension {} of {}, which has {}", expr.value, consumer_.name,
                            consumer_.grid.size()),
                fmt::format("expressions use the consumer's own dimensions, counted from 0: {}",
                            fmt::join(consumer_.dimension_names(), ", ")));
          return {};
        }
        return {0, consumer_.grid[static_cast<std::size_t>(expr.value)].extent - 1};
      case TileExpr::Op::add: return {of[0].low + of[1].low, of[0].high + of[1].high};
      case TileExpr::Op::multiply:
        return {std::min(of[0].low * value, of[0].high * value),
                std::max(of[0].low * value, of[0].high * value)};
      case TileExpr::Op::floor_div:
      case TileExpr::Op::modulo:
        if (value < 1) {
          blame("E0111", fmt::format("divides by {}", expr.value), "divisors are positive constants");
          return {};
        }
        if (expr.op == TileExpr::Op::modulo) return {0, value - 1};
        return {floor_divide(of[0].low, value), floor_divide(of[0].high, value)};
      case TileExpr::Op::minimum: return {std::min(of[0].low, of[1].low), std::min(of[0].high, of[1].high)};
      case TileExpr::Op::maximum: return {std::max(of[0].low, of[1].low), std::max(of[0].high, of[1].high)};
    }
    return {};
  }

  void blame(std::string code, std::string message, std::string suggestion = {}) {
    if (!fault) fault = ExpressionFault{std::move(code), std::move(message), std::move(suggestion)};
  }

  Stage const& consumer_;
  int nodes_ = 0;
};

}  // namespace

std::optional<ExpressionFault> fault_of(TileExpr const& expr, Stage const& consumer) {
  Examination examination(consumer);
  examination.interval_of(expr, 0);
  return examination.fault;
}

}  // namespace tessera::check_detail
