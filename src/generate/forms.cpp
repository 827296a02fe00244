// SPDX-License-Identifier: Apache-2.0
#include "generate/forms.hpp"

#include <fmt/format.h>

#include <array>

namespace tessera::generate {
namespace {

/// Equal groupings written in one way; an extent of 1 makes all of them the same.
DimensionMap normal(DimensionMap map, int extent) {
  if (extent == 1) return {Grouping::each, 1};
  if (map.grouping == Grouping::block && map.width == 1) return {Grouping::each, 1};
  if (map.grouping == Grouping::block && map.width >= extent) return {Grouping::all, 1};
  if (map.grouping == Grouping::stride && map.width == 1) return {Grouping::all, 1};
  if (map.grouping == Grouping::stride && map.width >= extent) return {Grouping::each, 1};
  if (map.grouping == Grouping::each || map.grouping == Grouping::all) map.width = 1;
  return map;
}

bool same(SemaphoreMap const& a, SemaphoreMap const& b, TileGrid const& grid) {
  for (int d = 0; d < k_max_rank; ++d) {
    auto const left = normal(a.dimension[d], grid.extent[d]);
    auto const right = normal(b.dimension[d], grid.extent[d]);
    if (left.grouping != right.grouping || left.width != right.width) return false;
  }
  return true;
}

std::string dimension_type(DimensionMap map) {
  switch (map.grouping) {
    case Grouping::each: return "tessera::Each";
    case Grouping::all: return "tessera::All";
    case Grouping::block: return fmt::format("tessera::Block<{}>", map.width);
    case Grouping::stride: return fmt::format("tessera::Stride<{}>", map.width);
  }
  return "";
}

struct Named {
  std::string_view name;
  std::string type;
  SemaphoreMap map;
};

bool has_dimension(TileExpr const& expr) {
  if (expr.op == TileExpr::Op::dimension) return true;
  for (auto const& argument : expr.arguments)
    if (has_dimension(argument)) return true;
  return false;
}

std::vector<Named> named_policies(SemaphoreMap const& map) {
  DimensionMap const each{Grouping::each, 1};
  DimensionMap const all{Grouping::all, 1};
  std::vector<Named> policies = {
      {"TileSync", "tessera::TileSync", {{each, each, each, each}}},
      {"Conv2DTileSync", "tessera::Conv2DTileSync", {{each, each, each, each}}},
      {"RowSync", "tessera::RowSync", {{all, each, each, each}}},
      {"GridSync", "tessera::GridSync", {{all, all, all, all}}},
  };
  auto const x = map.dimension[0];
  auto const y = map.dimension[1];
  if (x.grouping == Grouping::stride)
    policies.push_back(
        {"StridedSync", fmt::format("tessera::StridedSync<{}>", x.width), {{x, each, each, each}}});
  if (y.grouping == Grouping::block)
    policies.push_back(
        {"BatchedRowSync", fmt::format("tessera::BatchedRowSync<{}>", y.width), {{all, y, each, each}}});
  return policies;
}

}  // namespace

std::string policy_type(SemaphoreMap const& map, TileGrid const& grid, std::string const& name) {
  auto const policies = named_policies(map);
  for (auto const& policy : policies)
    if (name.starts_with(policy.name) && same(map, policy.map, grid)) return policy.type;
  for (auto const& policy : policies)
    if (same(map, policy.map, grid)) return policy.type;

  int last = 0;
  for (int d = 0; d < k_max_rank; ++d)
    if (normal(map.dimension[d], grid.extent[d]).grouping != Grouping::each) last = d;
  std::string type = "tessera::ProductPolicy<";
  for (int d = 0; d <= last; ++d)
    type += (d > 0 ? ", " : "") + dimension_type(normal(map.dimension[d], grid.extent[d]));
  return type + ">";
}

std::optional<std::vector<OrderDigit>> closed_form(std::span<std::int32_t const> table) {
  auto const size = static_cast<std::int64_t>(table.size());
  if (size < 2 || table[0] != 0) return std::nullopt;
  std::vector<OrderDigit> digits;
  std::int64_t covered = 1;  // positions below it are the digits so far
  while (covered < size) {
    if (digits.size() == 6) return std::nullopt;
    std::int64_t const weight = table[static_cast<std::size_t>(covered)];
    std::int64_t radix = 1;
    while (radix * covered < size && table[static_cast<std::size_t>(radix * covered)] == radix * weight)
      ++radix;
    // The last digit's run may be cut short by the table's end only if it ends exactly there.
    while (radix > 1 && size % (radix * covered) != 0) --radix;
    if (radix == 1) return std::nullopt;
    digits.push_back({radix, weight});
    covered *= radix;
  }
  for (std::int64_t position = 0; position < size; ++position) {
    std::int64_t rest = position;
    std::int64_t tile = 0;
    for (auto const& digit : digits) {
      tile += rest % digit.radix * digit.weight;
      rest /= digit.radix;
    }
    if (tile != table[static_cast<std::size_t>(position)]) return std::nullopt;
  }
  return digits;
}

std::string expression(TileExpr const& expr, std::span<std::string const> names) {
  // Constants are folded here, so that every operation in the text has a 64-bit variable in it.
  if (!has_dimension(expr)) {
    auto const value = expr.evaluate({});
    // The smallest 64-bit number has no literal of its own.
    return value == INT64_MIN ? fmt::format("{} - 1", INT64_MIN + 1) : fmt::format("{}", value);
  }
  auto const argument = [&](std::size_t i) { return expression(expr.arguments[i], names); };
  auto const factor = [&](std::size_t i) {
    return expr.arguments[i].op == TileExpr::Op::add ? fmt::format("({})", argument(i)) : argument(i);
  };
  switch (expr.op) {
    case TileExpr::Op::constant: break;
    case TileExpr::Op::dimension: return names[static_cast<std::size_t>(expr.value)];
    case TileExpr::Op::add: {
      auto const right = argument(1);
      if (right.front() == '-' && right != "-" && right.find(' ') == std::string::npos)
        return fmt::format("{} - {}", argument(0), right.substr(1));
      return fmt::format("{} + {}", argument(0), right);
    }
    case TileExpr::Op::multiply: return fmt::format("{} * {}", factor(0), expr.value);
    case TileExpr::Op::floor_div:
      return fmt::format("tessera::floor_divide({}, {})", argument(0), expr.value);
    case TileExpr::Op::modulo: return fmt::format("tessera::floor_modulo({}, {})", argument(0), expr.value);
    case TileExpr::Op::minimum: return fmt::format("tessera::smaller({}, {})", argument(0), argument(1));
    case TileExpr::Op::maximum: return fmt::format("tessera::larger({}, {})", argument(0), argument(1));
  }
  return "";
}

void mark_dimensions(TileExpr const& expr, std::vector<bool>& used) {
  if (expr.op == TileExpr::Op::dimension) used[static_cast<std::size_t>(expr.value)] = true;
  for (auto const& argument : expr.arguments) mark_dimensions(argument, used);
}

}  // namespace tessera::generate
