// SPDX-License-Identifier: Apache-2.0
#include "tessera/tune/floor.hpp"

#include <algorithm>

#include "describe/layer_operators.hpp"
#include "describe/operator_check.hpp"

namespace tessera {
namespace {

/// Any kernel: what an operator reads at least does not depend on it.
TileChoice any_kernel(Operator const& op, ElementType type) {
  TileChoice choice;
  choice.kernel.name = "any";
  choice.kernel.kind = op.kind;
  choice.kernel.tile_m = choice.kernel.tile_n = 256;
  if (op.kind == OperatorKind::attention || op.kind == OperatorKind::turn_heads)
    choice.kernel.tile_n = static_cast<int>(op.k);
  if (op.kind == OperatorKind::norm) choice.kernel.tile_n = choice.kernel.tile_k = static_cast<int>(op.n);
  choice.kernel.forms = {{{type}, {op.epilogue}, 2, {}}};
  return choice;
}

}  // namespace

double floor_us(OperatorGraph const& graph, double flops_per_second, double bytes_per_second) {
  std::vector<TileChoice> choices;
  for (auto const& op : graph.operators) choices.push_back(any_kernel(op, graph.type));
  auto const tiled = tile(graph, choices);
  if (!tiled) return 0;
  double seconds = 0;
  for (std::size_t i = 0; i < graph.operators.size(); ++i) {
    auto const& op = graph.operators[i];
    auto const batch = static_cast<double>(op.batch);
    double bytes = static_cast<double>(output_rows(op)) * static_cast<double>(output_columns(op)) * batch *
                   stored_bytes(graph, op);
    for (auto const& operand : tiled->stages[i].operands) bytes += operand.unique_bytes;
    double const flops = multiplies(op) ? 2 * static_cast<double>(op.m) * static_cast<double>(op.n) *
                                              static_cast<double>(op.k) * batch
                                        : 0;
    seconds += std::max(flops / flops_per_second, bytes / bytes_per_second);
  }
  return 1e6 * seconds;
}

}  // namespace tessera
