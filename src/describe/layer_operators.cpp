// SPDX-License-Identifier: Apache-2.0
#include "describe/layer_operators.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "describe/attention_sight.hpp"
#include "describe/operator_check.hpp"

namespace tessera {
namespace {

constexpr char const* k_residual = "residual";
constexpr char const* k_shift = "shift";
constexpr char const* k_turns = "turns";
constexpr char const* k_positions = "positions";

bool has_input(Operator const& op, char const* name) {
  return std::any_of(op.inputs.begin(), op.inputs.end(),
                     [&](OperatorInput const& input) { return input.name == name; });
}

constexpr double k_position_bytes = 4;

double product(std::int64_t a, std::int64_t b) { return static_cast<double>(a) * static_cast<double>(b); }

/// Names of inputs that a kind has, each at most once, the first one always.
struct Inputs {
  std::vector<char const*> names;
  char const* text;
};
Inputs inputs_of(OperatorKind kind, bool unequal) {
  if (kind == OperatorKind::norm) return {{"a", k_shift}, "reads \"a\", and \"shift\" if there is one"};
  if (unequal)
    return {{"a", k_turns, k_positions, k_shift},
            "reads \"a\", and \"turns\" with \"positions\", \"shift\" or all of them"};
  return {{"a", k_turns, k_shift}, "reads \"a\", and \"turns\", \"shift\" or both"};
}

}  // namespace

bool adds_residual(Operator const& op) { return op.epilogue == Epilogue::residual; }

bool is_layer_kind(OperatorKind kind) {
  return kind == OperatorKind::norm || kind == OperatorKind::turn_heads;
}

bool reads_wide(Operator const& op, OperatorInput const& input) {
  return op.kind == OperatorKind::norm || (adds_residual(op) && input.name == k_residual);
}

bool writes_wide(Operator const& op) { return adds_residual(op); }

std::int64_t turned_columns(OperatorGraph const& graph, Operator const& op) {
  auto const& a = graph.attention;
  return has_input(op, k_shift) ? op.n : (a.query_heads + a.kv_heads) * a.head_dim;
}

double layer_operand_bytes(OperatorGraph const& graph, Operator const& op, OperatorInput const& input,
                           double rows) {
  if (input.name == k_shift) return static_cast<double>(op.n * k_wide_bytes);
  if (input.name == k_turns) return rows * static_cast<double>(op.k * k_wide_bytes);
  if (input.name == k_positions) return rows * k_position_bytes;
  if (op.kind == OperatorKind::norm) return rows * static_cast<double>(op.n * k_wide_bytes);
  return rows * static_cast<double>(turned_columns(graph, op) * graph.element_bytes);
}

double layer_unique_bytes(OperatorGraph const& graph, Operator const& op, OperatorInput const& input) {
  auto const rows = input.name == k_turns ? graph.attention.tokens : op.m;  // sequences share their angles
  return layer_operand_bytes(graph, op, input, static_cast<double>(rows));
}

double stored_bytes(OperatorGraph const& graph, Operator const& op) {
  if (writes_wide(op)) return k_wide_bytes;
  if (op.kind == OperatorKind::turn_heads)
    return product(turned_columns(graph, op), graph.element_bytes) / static_cast<double>(op.n);
  bool const both = op.kind == OperatorKind::norm && has_input(op, k_shift);
  return graph.element_bytes + (both ? k_wide_bytes : 0);
}

std::optional<OutsideMatrix> outside_matrix(OperatorGraph const& graph, Operator const& op,
                                            OperatorInput const& input) {
  if (op.kind == OperatorKind::attention && is_cache(op, input)) {
    auto const& a = graph.attention;
    return OutsideMatrix{a.cached + a.tokens, a.head_dim, a.sequences * a.kv_heads, graph.type};
  }
  if (!input.producer.empty() || input.pattern != ReadPattern::rows) return std::nullopt;
  if (is_layer_kind(op.kind)) {
    if (input.name == k_shift) return OutsideMatrix{1, op.n, 1, ElementType::fp32};
    if (input.name == k_turns) return OutsideMatrix{graph.attention.tokens, op.k, 1, ElementType::fp32};
    if (input.name == k_positions) return OutsideMatrix{1, op.m, 1, ElementType::int32};
    auto const type = op.kind == OperatorKind::norm ? ElementType::fp32 : graph.type;
    return OutsideMatrix{op.m, op.n, 1, type};
  }
  if (op.kind == OperatorKind::attention && input.name == k_offsets)
    return OutsideMatrix{1, graph.attention.sequences + 1, 1, ElementType::int32};
  if (op.kind == OperatorKind::attention && input.name == k_lengths)
    return OutsideMatrix{1, graph.attention.sequences, 1, ElementType::int32};
  if (reads_wide(op, input)) return OutsideMatrix{op.m, op.n, 1, ElementType::fp32};
  if (!multiplies(op)) return OutsideMatrix{op.m, op.n, op.batch, graph.type};
  if (is_right_hand(op, input)) {
    auto const matrices = std::max<std::size_t>(op.groups.size(), 1);
    return OutsideMatrix{op.n, op.k, op.batch * static_cast<std::int64_t>(matrices), graph.type};
  }
  if (op.kind == OperatorKind::gemm) return OutsideMatrix{op.m, op.k, op.batch, graph.type};
  return std::nullopt;
}

bool fits_rows(KernelEntry const& kernel, Operator const& op) {
  constexpr int k_at_once = 4;  // elements of a row that a thread loads
  if (op.kind == OperatorKind::norm)
    return op.n >= kernel.tile_k && op.n <= kernel.tile_n && op.n % k_at_once == 0;
  return op.kind != OperatorKind::turn_heads || op.k == kernel.tile_n;
}

Diagnostics problems_of_layer(OperatorGraph const& graph, Operator const& op) {
  Diagnostics out;
  auto const report = [&](char const* code, std::string message, std::string hint = {}) {
    out.push_back({code, Severity::error, op.where, std::move(message), {}, std::move(hint)});
  };
  auto const count = [&](std::string_view name) {
    return std::count_if(op.inputs.begin(), op.inputs.end(),
                         [&](OperatorInput const& input) { return input.name == name; });
  };
  if (adds_residual(op)) {
    if (op.kind != OperatorKind::gemm || op.batch != 1 || !op.groups.empty())
      report("E0153", fmt::format("{}: a residual epilogue needs a GEMM of one matrix", op.name));
    else if (count(k_residual) != 1)
      report("E0153",
             fmt::format("{}: a residual epilogue adds an input named \"residual\", and there are {}",
                         op.name, count(k_residual)),
             "name what is added \"residual\"");
    for (auto const& input : op.inputs)
      if (input.name == k_residual && !input.producer.empty() && input.pattern != ReadPattern::same_tile)
        report("E0152",
               fmt::format("{} adds what {} makes element by element, not as {}", op.name, input.producer,
                           to_text(input.pattern)),
               "read it as same_tile");
  } else if (op.kind == OperatorKind::gemm && count(k_residual) > 0) {
    report("E0153", fmt::format("{} reads \"residual\", and its epilogue adds none", op.name),
           "give it the epilogue \"residual\", or the input another name");
  }
  if (!is_layer_kind(op.kind)) return out;

  auto const wanted = inputs_of(op.kind, !prompts_of(graph).empty());
  std::ptrdiff_t known = 0;
  bool once = count("a") == 1;
  for (auto const* name : wanted.names) {
    known += count(name);
    once = once && count(name) <= 1;
  }
  bool const placed = prompts_of(graph).empty() || count(k_turns) == count(k_positions);
  if (!once || (op.kind == OperatorKind::turn_heads && !placed) ||
      known != static_cast<std::ptrdiff_t>(op.inputs.size()) ||
      (op.kind == OperatorKind::turn_heads && known < 2))
    report("E0153", fmt::format("{} is a {}, and {}, once each", op.name, to_text(op.kind), wanted.text),
           "name its inputs so");
  for (auto const& input : op.inputs) {
    if (input.name == "a" ? input.pattern != ReadPattern::rows && input.pattern != ReadPattern::same_tile
                          : !input.producer.empty() || input.pattern != ReadPattern::rows)
      report("E0152", input.name == "a"
                          ? fmt::format("{} is a {}, and reads rows, not {}", op.name, to_text(op.kind),
                                        to_text(input.pattern))
                          : fmt::format("{} reads \"{}\", which comes from outside, without a pattern",
                                        op.name, input.name));
  }
  if (!out.empty()) return out;  // sizes are bounded where inputs are right
  struct Size {
    char const* what;
    std::int64_t is, should;
  };
  std::vector<Size> sizes{{"batch entries", op.batch, 1}};
  if (op.kind == OperatorKind::turn_heads) {
    auto const& a = graph.attention;
    sizes.push_back({words_of_rows(graph), op.m, all_tokens(graph)});
    sizes.push_back({"columns ((query heads + 2 * kv heads) * head size)", op.n,
                     (a.query_heads + 2 * a.kv_heads) * a.head_dim});
    sizes.push_back({"depth (head size)", op.k, a.head_dim});
  }
  for (auto const& [what, is, should] : sizes)
    if (is != should)
      report("E0152", fmt::format("{} is a {}, and must have {} {}, not {}", op.name, to_text(op.kind),
                                  should, what, is));
  if (op.epilogue != Epilogue::none)
    report("E0153", fmt::format("{} is a {}, and has no epilogue", op.name, to_text(op.kind)),
           "leave it out");
  return out;
}

std::optional<Diagnostic> problem_of_types(Operator const& op, OperatorInput const& input,
                                           Operator const& from, ElementType type) {
  bool const wants = reads_wide(op, input), gets = writes_wide(from);
  if (wants == gets || type == ElementType::fp32) return std::nullopt;
  auto const* const wide = to_text(ElementType::fp32);
  return Diagnostic{
      "E0152",
      Severity::error,
      op.where,
      fmt::format("{} reads \"{}\" as {}, and {} writes {}", op.name, input.name,
                  wants ? wide : to_text(type), from.name, gets ? wide : to_text(type)),
      {"products that add a residual write fp32; norms and residuals read it, and nothing else does"},
      wants ? fmt::format("give {} the epilogue \"residual\", or let the input come from outside", from.name)
            : "read it through a norm"};
}

}  // namespace tessera
