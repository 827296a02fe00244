// SPDX-License-Identifier: Apache-2.0
// What tile() asks of an operator graph and of the kernels chosen for it, before it computes anything.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/describe/workload.hpp"

namespace tessera {

/// Largest size of anything that is counted in elements or tiles.
constexpr std::int64_t k_largest_size = (std::int64_t{1} << 31) - 1;

/// The buffer that an operator writes, and its size for one batch entry.
std::string const& output_of(Operator const& op);
std::int64_t output_rows(Operator const& op);
std::int64_t output_columns(Operator const& op);

/// Is it a product of two matrices, or a convolution, which is one?
bool multiplies(Operator const& op);

/// True for the second matrix of a multiplication (weights, keys, values): an operand named "b", or one
/// whose pattern says so.
bool is_right_hand(Operator const& op, OperatorInput const& input);

char const* to_text(ReadPattern pattern);

/// Whose sizes are the graph's `attention` and `conv`.
bool reads_heads(Operator const& op);
bool convolves(Operator const& op);

/// E0152, E0153: sizes, names, order, and whether every input's sizes fit its read pattern.
Diagnostics problems_of(OperatorGraph const& graph);
/// E0153: a product of files without its two matrices "a" and "b", or with another input, but for parts of a
/// fused or cached matrix of attention. Precondition: the graph has no problems.
Diagnostics problems_of_products(OperatorGraph const& graph);
/// E0150, E0151: number and kind of choices, tile sizes, splits. Precondition: the graph has no problems.
Diagnostics problems_of(OperatorGraph const& graph, std::vector<TileChoice> const& choices);
/// Those of one operator's choice. Precondition: there are as many choices as operators.
Diagnostics problems_of(OperatorGraph const& graph, std::vector<TileChoice> const& choices, std::size_t i);
/// E0154: more tiles or blocks than can be numbered.
std::optional<Diagnostic> oversized(Stage const& stage);

}  // namespace tessera
