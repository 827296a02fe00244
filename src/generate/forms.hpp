// SPDX-License-Identifier: Apache-2.0
// Plan values as the types of tessera/sync.cuh.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/plan/plan.hpp"

namespace tessera::generate {

/// The type of a semaphore map on this grid: a named one if it is one, else a product. `name`, the
/// planner's word for it, decides between types that are the same on this grid.
std::string policy_type(SemaphoreMap const& map, TileGrid const& grid, std::string const& name);

struct OrderDigit {
  std::int64_t radix;
  std::int64_t weight;
  bool operator==(OrderDigit const&) const = default;
};

/// The permutation as digits, fastest first, if it has a closed form of at most six; none for an empty table.
std::optional<std::vector<OrderDigit>> closed_form(std::span<std::int32_t const> table);

/// A C++ expression; dimension d is written as names[d].
std::string expression(TileExpr const& expr, std::span<std::string const> names);

/// Marks the dimensions that occur.
void mark_dimensions(TileExpr const& expr, std::vector<bool>& used);

}  // namespace tessera::generate
