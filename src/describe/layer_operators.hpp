// SPDX-License-Identifier: Apache-2.0
// What a decoder layer has beside products and attention: norms of rows, heads that are turned, residuals.
// What they read and write of which type, and whether they can be. All sizes are per launch.
//
// Inputs by their names. A norm: "a", the rows; "shift", a vector that is added to each row, and stored
// there. A turn_heads: "a", the QKV product; "turns", a table of angles, a row for each token; "positions",
// the row of that table for each row, where sequences are of unequal length; "shift", biases. A product whose
// epilogue is residual: "residual", what is added to it.
#pragma once

#include <optional>

#include "tessera/describe/workload.hpp"

namespace tessera {

/// Bytes of an element of the stream of residuals, of shifts and of angles, which are fp32.
constexpr int k_wide_bytes = 4;

bool adds_residual(Operator const& op);
bool is_layer_kind(OperatorKind kind);  ///< norm, turn_heads

/// Is it the stream of residuals, fp32 whatever the graph's type?
bool reads_wide(Operator const& op, OperatorInput const& input);
bool writes_wide(Operator const& op);

/// Columns of a row of turn_heads that it loads and stores: without a shift all but the values.
std::int64_t turned_columns(OperatorGraph const& graph, Operator const& op);

/// Bytes that `rows` rows of an input of a norm or a turn_heads are.
double layer_operand_bytes(OperatorGraph const& graph, Operator const& op, OperatorInput const& input,
                           double rows);
/// Distinct ones, of the whole input.
double layer_unique_bytes(OperatorGraph const& graph, Operator const& op, OperatorInput const& input);
/// Bytes that the operator stores for each element of its output, on average. Of any kind.
double stored_bytes(OperatorGraph const& graph, Operator const& op);

/// A plain matrix from outside, or a cache: one for each sequence and key head, with room for the new tokens.
struct OutsideMatrix {
  std::int64_t rows = 1, columns = 1, batch = 1;
  ElementType type = ElementType::bf16;
};
/// Nothing for what an operator makes, parts of a fused tensor, caches of products, and images.
std::optional<OutsideMatrix> outside_matrix(OperatorGraph const& graph, Operator const& op,
                                            OperatorInput const& input);

/// Is the kernel, of the operator's kind, for its sizes?
bool fits_rows(KernelEntry const& kernel, Operator const& op);

/// E0152, E0153: inputs, sizes and types that these operators cannot have. `from`: who makes the input, or
/// null. Of any kind: whoever else reads a stream of residuals, or names an input so, is refused as well.
Diagnostics problems_of_layer(OperatorGraph const& graph, Operator const& op);
std::optional<Diagnostic> problem_of_types(Operator const& op, OperatorInput const& input,
                                           Operator const& from, ElementType type);

}  // namespace tessera
