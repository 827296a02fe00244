// SPDX-License-Identifier: Apache-2.0
#include "odd_sizes.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tessera::cli {

Diagnostics odd_sizes(OperatorGraph const& graph, Severity severity) {
  constexpr std::int64_t k_row_bytes = 16;
  auto const multiple = std::max<std::int64_t>(1, k_row_bytes / std::max(1, graph.element_bytes));
  Diagnostics found;
  if (auto const& heads = graph.attention; heads.head_dim % multiple != 0)
    found.push_back(
        {"E0530",
         severity,
         graph.where,
         fmt::format("the shipped kernels cannot read heads of {} values", heads.head_dim),
         {fmt::format("they are to be a multiple of {}, so that heads begin at multiples of {} bytes",
                      multiple, k_row_bytes)},
         fmt::format("pad queries, keys and values with zeros to a multiple of {}", multiple)});
  for (auto const& op : graph.operators) {
    if (op.kind != OperatorKind::gemm || op.batch != 1) continue;
    if (op.n % multiple == 0 && op.k % multiple == 0) continue;
    found.push_back(
        {"E0530",
         severity,
         op.where,
         fmt::format("the shipped kernels cannot run {}, n {} and k {}", op.name, op.n, op.k),
         {fmt::format("both are to be multiples of {}, so that rows begin at multiples of {} bytes", multiple,
                      k_row_bytes)},
         fmt::format("pad the weights with zeros to a multiple of {}", multiple)});
  }
  return found;
}

}  // namespace tessera::cli
