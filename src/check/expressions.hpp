// SPDX-License-Identifier: Apache-2.0
// Can an expression be evaluated at every tile of a grid?
#pragma once

#include <optional>
#include <string>

#include "tessera/describe/pipeline.hpp"

namespace tessera::check_detail {

/// Why not: wrong number of arguments, a divisor below 1, too deep or large, a value that could leave
/// 64 bits (E0111), or a dimension that the consumer does not have (E0105). `message` completes a
/// sentence that starts with the place.
struct ExpressionFault {
  std::string code;
  std::string message;
  std::string suggestion;
};

/// nullopt: evaluation is safe, and |value| <= k_max_expression_value everywhere in between.
std::optional<ExpressionFault> fault_of(TileExpr const& expr, Stage const& consumer);

}  // namespace tessera::check_detail
