// SPDX-License-Identifier: Apache-2.0
#include "describe/operator_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "describe/attention_sight.hpp"
#include "describe/layer_operators.hpp"
#include "diagnostic/nearest.hpp"

namespace tessera {
namespace {

using Words = std::vector<std::string>;
using Earlier = std::map<std::string, Operator const*>;  // by name

bool is_attention(ReadPattern pattern) {
  return pattern == ReadPattern::query_heads || pattern == ReadPattern::key_heads ||
         pattern == ReadPattern::value_heads || pattern == ReadPattern::heads_to_columns;
}

/// One size that a pattern asks for.
struct Fit {
  bool reader;  // of the reader, not of the producer
  char const* what;
  std::int64_t is, should;
};

/// Equalities that make the pattern's geometry true. The products cannot overflow: every factor is
/// checked before, and shape_problem has bounded those that this pattern uses.
std::vector<Fit> fits_of(OperatorGraph const& graph, Operator const& op, Operator const& from,
                         ReadPattern pattern) {
  auto const& a = graph.attention;
  auto const& c = graph.conv;
  auto const qkv_columns = is_attention(pattern) ? (a.query_heads + 2 * a.kv_heads) * a.head_dim : 0;
  auto const rows = output_rows(from);
  auto const columns = output_columns(from);
  auto const depth = multiplies(op) ? op.k : op.n;
  // The rest of it: problems_of_attention().
  if (op.kind == OperatorKind::attention && !is_attention(pattern)) return {};
  if (op.kind == OperatorKind::attention)
    return {{false, words_of_rows(graph), rows, all_tokens(graph)},
            {false, "columns ((query heads + 2 * kv heads) * head size)", columns, qkv_columns},
            {false, "batch entries", from.batch, 1}};
  switch (pattern) {
    case ReadPattern::rows:
    case ReadPattern::same_batch_rows:
      return {{false, "rows", rows, op.m},
              {false, "columns", columns, depth},
              {false, "batch entries", from.batch, op.batch}};
    case ReadPattern::swiglu_pair:
      return {{false, "rows", rows, op.m},
              {false, "columns", columns, 2 * depth},
              {false, "batch entries", from.batch, op.batch}};
    case ReadPattern::same_tile:
      return {{false, "rows", rows, op.m},
              {false, "columns", columns, op.n},
              {false, "batch entries", from.batch, op.batch}};
    case ReadPattern::query_heads:
    case ReadPattern::key_heads:
      return {{false, "rows (sequences * tokens)", from.m, a.sequences * a.tokens},
              {false, "columns ((query heads + 2 * kv heads) * head size)", columns, qkv_columns},
              {false, "batch entries", from.batch, 1},
              {true, "rows (tokens)", op.m, a.tokens},
              {true, "columns (cached + tokens)", op.n, a.cached + a.tokens},
              {true, "depth (head size)", op.k, a.head_dim},
              {true, "batch entries (sequences * query heads)", op.batch, a.sequences * a.query_heads}};
    case ReadPattern::value_heads:
      return {{false, "rows (sequences * tokens)", from.m, a.sequences * a.tokens},
              {false, "columns ((query heads + 2 * kv heads) * head size)", columns, qkv_columns},
              {false, "batch entries", from.batch, 1},
              {true, "rows (tokens)", op.m, a.tokens},
              {true, "columns (head size)", op.n, a.head_dim},
              {true, "depth (cached + tokens)", op.k, a.cached + a.tokens},
              {true, "batch entries (sequences * query heads)", op.batch, a.sequences * a.query_heads}};
    case ReadPattern::heads_to_columns:
      return {{false, "rows (tokens)", from.m, a.tokens},
              {false, "columns (head size)", columns, a.head_dim},
              {false, "batch entries (sequences * query heads)", from.batch, a.sequences * a.query_heads},
              {true, "rows (sequences * tokens)", op.m, a.sequences * a.tokens},
              {true, "depth (query heads * head size)", op.k, a.query_heads * a.head_dim},
              {true, "batch entries", op.batch, 1}};
    case ReadPattern::conv_halo:
      return {{false, "rows (images * p * q)", from.m, c.images * c.p * c.q},
              {false, "columns (channels)", columns, c.channels},
              {false, "batch entries", from.batch, 1},
              {true, "rows", op.m, from.m},
              {true, "depth (channels * r * s)", op.k, c.channels * c.r * c.s},
              {true, "batch entries", op.batch, 1}};
  }
  return {};
}

/// True if the product of the factors is at most k_largest_size.
bool product_fits(std::vector<std::int64_t> const& factors) {
  std::int64_t product = 1;
  for (auto const factor : factors) {
    if (factor < 1 || factor > k_largest_size || product > k_largest_size / factor) return false;
    product *= factor;
  }
  return true;
}

/// Why the graph's attention or convolution shape cannot be used, or empty.
std::string shape_problem(OperatorGraph const& graph, Operator const& op, ReadPattern pattern) {
  auto const& a = graph.attention;
  auto const& c = graph.conv;
  if (is_attention(pattern) || op.kind == OperatorKind::turn_heads) {
    if (!product_fits({a.sequences, a.tokens}) || !product_fits({a.query_heads, 3, a.head_dim}) ||
        !product_fits({a.sequences, a.query_heads}) || a.cached < 0 || a.cached > k_largest_size - a.tokens ||
        a.kv_heads < 1 || a.window < 0)
      return "the attention shape has a size that is zero, negative or too large";
    if (a.query_heads % a.kv_heads != 0)
      return fmt::format("{} query heads do not share {} kv heads evenly", a.query_heads, a.kv_heads);
  }
  if (pattern == ReadPattern::conv_halo) {
    if (!product_fits({c.images, c.p, c.q}) || !product_fits({c.channels, c.r, c.s}))
      return "the convolution shape has a size that is zero, negative or too large";
    if (c.r % 2 == 0 || c.s % 2 == 0)
      return fmt::format("the kernel is {} x {}: only odd sizes keep the image's size", c.r, c.s);
  }
  return {};
}

/// Why a kernel for few rows cannot compute a product; empty: it can, or is for all.
std::string problem_of_few_rows(KernelEntry const& kernel, Operator const& op) {
  if (kernel.most_rows == 0 || kernel.kind != op.kind) return {};
  if (op.m < kernel.tile_m || op.m > kernel.most_rows || op.n % kernel.tile_n != 0 ||
      op.k % kernel.tile_k != 0)
    return fmt::format(
        "is for {} to {} rows, and columns and a depth that are multiples of {} and {}, not {} x "
        "{} x {}",
        kernel.tile_m, kernel.most_rows, kernel.tile_n, kernel.tile_k, op.m, op.n, op.k);
  for (auto const& input : op.inputs)
    if (input.name == "b" && !input.producer.empty())
      return fmt::format("reads \"b\" before it waits, and {} makes that", input.producer);
  return {};
}

/// Why a kernel for new tokens over a cache cannot compute the graph's attention; empty: it can, or is of
/// prompts.
std::string problem_of_new_tokens(KernelEntry const& kernel, OperatorGraph const& graph) {
  if (!kernel.of_new_tokens) return {};
  auto const& a = graph.attention;
  if (a.tokens != 1 || a.cached < 1)
    return fmt::format("is for one new token behind cached ones, not {} behind {}", a.tokens, a.cached);
  if (auto const group = a.query_heads / a.kv_heads; group > kernel.tile_m)
    return fmt::format("is for up to {} query heads to a key head, not {}", kernel.tile_m, group);
  return {};
}

/// Groups of products, each with a matrix of its own; those of attention are sequences, and nobody else's.
bool is_grouped(Operator const& op) { return op.kind == OperatorKind::gemm && !op.groups.empty(); }

/// E0153: groups that are no rows of this operator.
void check_groups(Operator const& op, Diagnostics& out) {
  if (op.groups.empty()) return;
  auto const report = [&](std::string message, std::string hint = {}) {
    out.push_back({"E0153", Severity::error, op.where, std::move(message), {}, std::move(hint)});
  };
  std::int64_t rows = 0;
  for (auto const group : op.groups) {
    if (group < 1 || group > k_largest_size)
      return report(fmt::format("{}: a group has {} rows", op.name, group), "leave empty groups out");
    rows += group;
  }
  if ((op.kind != OperatorKind::gemm && op.kind != OperatorKind::attention) || op.batch != 1)
    return report(fmt::format("{}: only a gemm without a batch, or an attention, can have groups", op.name));
  if (rows != op.m)
    report(fmt::format("{}: its groups have {} rows together, and m is {}", op.name, rows, op.m));
}

void check_input(OperatorGraph const& graph, Operator const& op, OperatorInput const& input,
                 Earlier const& earlier, Diagnostics& out) {
  auto const report = [&](char const* code, std::string message, Words notes = {}, std::string hint = {}) {
    out.push_back({code, Severity::error, op.where, std::move(message), std::move(notes), std::move(hint)});
  };
  if (auto const problem = shape_problem(graph, op, input.pattern); !problem.empty())
    return report("E0152", fmt::format("{} reads \"{}\" as {}, but {}", op.name, input.name,
                                       to_text(input.pattern), problem));
  if (input.producer.empty()) return;

  auto const place = earlier.find(input.producer);
  if (place == earlier.end()) {
    Words names;
    for (auto const& op_before : graph.operators) {
      if (&op_before == &op) break;
      names.push_back(op_before.name);
    }
    return report("E0153",
                  fmt::format("{} reads \"{}\" from {}, which is no earlier operator", op.name, input.name,
                              input.producer),
                  {"operators before it: " + (names.empty() ? "none" : list_of(names))},
                  did_you_mean(input.producer, names));
  }
  auto const* const from = place->second;
  if (input.buffer != output_of(*from))
    return report("E0153", fmt::format("{} reads buffer \"{}\" from {}, which writes \"{}\"", op.name,
                                       input.buffer, from->name, output_of(*from)));
  if (auto problem = problem_of_types(op, input, *from, graph.type))
    return out.push_back(std::move(*problem));
  if (is_grouped(op) != is_grouped(*from) || (is_grouped(op) && op.groups != from->groups))
    return report("E0152", fmt::format("{} cannot read the output of {}: they are grouped in different ways",
                                       op.name, from->name));
  if (is_grouped(op) && input.pattern != ReadPattern::rows)
    return report("E0152", fmt::format("{} cannot read groups of {} as {}: only as rows", op.name, from->name,
                                       to_text(input.pattern)));
  if (from->kind == OperatorKind::attention && input.pattern != ReadPattern::rows &&
      input.pattern != ReadPattern::same_tile)
    return report("E0152", fmt::format("{} cannot read {}, an attention, as {}: only as rows or same_tile",
                                       op.name, from->name, to_text(input.pattern)));
  for (auto const& fit : fits_of(graph, op, *from, input.pattern))
    if (fit.is != fit.should)
      return report("E0152", fmt::format("{} cannot read the output of {} as {}: {} must have {} {}, not {}",
                                         op.name, from->name, to_text(input.pattern),
                                         fit.reader ? op.name : from->name, fit.should, fit.what, fit.is));
}

}  // namespace

std::string const& output_of(Operator const& op) { return op.output.empty() ? op.name : op.output; }

std::int64_t output_rows(Operator const& op) { return op.kind == OperatorKind::sum ? 1 : op.m; }

std::int64_t output_columns(Operator const& op) {
  if (op.kind == OperatorKind::sum) return 1;
  return is_gated(op.epilogue) ? op.n / 2 : op.n;
}

bool multiplies(Operator const& op) {
  return op.kind == OperatorKind::gemm || op.kind == OperatorKind::conv2d;
}

bool is_right_hand(Operator const&, OperatorInput const& input) {
  return input.name == "b" || input.pattern == ReadPattern::key_heads ||
         input.pattern == ReadPattern::value_heads;
}

bool computes(KernelEntry const& kernel, OperatorGraph const& graph, Operator const& op) {
  if (kernel.kind != op.kind || find_form(kernel, op.epilogue, graph.type) == nullptr) return false;
  if (op.kind == OperatorKind::attention)
    return kernel.tile_n == op.k && problem_of_new_tokens(kernel, graph).empty();
  if (kernel.most_rows > 0 && (op.batch > 1 || is_grouped(op))) return false;
  return fits_rows(kernel, op) && problem_of_few_rows(kernel, op).empty();
}

bool generates(OperatorGraph const& graph) {
  return graph.attention.tokens == 1 && graph.attention.cached > 0 &&
         std::any_of(graph.operators.begin(), graph.operators.end(),
                     [](Operator const& op) { return op.kind == OperatorKind::attention; });
}

char const* to_text(ReadPattern pattern) {
  switch (pattern) {
    case ReadPattern::rows: return "rows";
    case ReadPattern::swiglu_pair: return "swiglu_pair";
    case ReadPattern::query_heads: return "query_heads";
    case ReadPattern::key_heads: return "key_heads";
    case ReadPattern::value_heads: return "value_heads";
    case ReadPattern::same_batch_rows: return "same_batch_rows";
    case ReadPattern::heads_to_columns: return "heads_to_columns";
    case ReadPattern::conv_halo: return "conv_halo";
    case ReadPattern::same_tile: return "same_tile";
  }
  return "";
}

bool reads_heads(Operator const& op) {
  return op.kind == OperatorKind::turn_heads ||
         std::any_of(op.inputs.begin(), op.inputs.end(),
                     [](OperatorInput const& input) { return is_attention(input.pattern); });
}

bool convolves(Operator const& op) {
  return op.kind == OperatorKind::conv2d ||
         std::any_of(op.inputs.begin(), op.inputs.end(),
                     [](OperatorInput const& input) { return input.pattern == ReadPattern::conv_halo; });
}

Diagnostics problems_of(OperatorGraph const& graph) {
  Diagnostics out;
  Earlier earlier;
  bool fused = false;
  if (graph.operators.empty())
    out.push_back({"E0153", Severity::error, graph.where, "the operator graph is empty", {}, {}});
  if (graph.element_bytes < 1 || graph.element_bytes > 16)
    out.push_back({"E0153",
                   Severity::error,
                   graph.where,
                   fmt::format("elements of {} bytes are not possible", graph.element_bytes),
                   {},
                   "use 2 for fp16 and bf16"});
  for (auto const& op : graph.operators) {
    auto const report = [&](std::string message) {
      out.push_back({"E0153", Severity::error, op.where, std::move(message), {}, {}});
    };
    if (earlier.count(op.name) != 0) report(fmt::format("two operators are named {}", op.name));
    for (auto const& [what, size] :
         {std::pair{"m", op.m}, std::pair{"n", op.n}, std::pair{"k", op.k}, std::pair{"batch", op.batch}})
      if (size < 1 || size > k_largest_size)
        report(fmt::format("{}: {} must be between 1 and {}, not {}", op.name, what, k_largest_size, size));
    if (is_gated(op.epilogue) && (op.n % 2 != 0 || op.kind != OperatorKind::gemm))
      report(fmt::format("{}: a {} epilogue needs a GEMM with an even number of columns", op.name,
                         op.epilogue == Epilogue::swiglu ? "SwiGLU" : "GeGLU"));
    check_groups(op, out);
    if (out.empty())
      for (auto const& input : op.inputs) check_input(graph, op, input, earlier, out);
    if (out.empty() && op.kind == OperatorKind::attention) out = problems_of_attention(graph, op);
    if (out.empty()) out = problems_of_layer(graph, op);
    fused = fused || op.kind == OperatorKind::attention;
    earlier.emplace(op.name, &op);
  }
  if (!fused && is_causal(graph.attention))
    out.push_back(
        {"E0153",
         Severity::error,
         graph.where,
         "\"causal\" and \"window\" hide keys from an operator of kind attention, and there is none",
         {"scores, softmax and context as operators of their own look at all keys"},
         "leave them out"});
  return out;
}

Diagnostics problems_of_products(OperatorGraph const& graph) {
  Diagnostics out;
  for (auto const& op : graph.operators) {
    if (!multiplies(op)) continue;
    int left = 0, right = 0, others = 0;
    for (auto const& input : op.inputs)
      if (input.name == "a")
        ++left;
      else if (input.name == "b")
        ++right;
      else if (!is_right_hand(op, input) && !reads_wide(op, input))
        ++others;
    if (left == 1 && right == 1 && others == 0) continue;
    Words names;
    for (auto const& input : op.inputs) names.push_back(input.name);
    out.push_back(
        {"E0153",
         Severity::error,
         op.where,
         fmt::format("{} is a {}, and multiplies \"a\" by \"b\", once each", op.name, to_text(op.kind)),
         {"its inputs: " + (names.empty() ? "none" : list_of(names))},
         "name the left-hand matrix \"a\" and the right-hand one \"b\""});
  }
  return out;
}

Diagnostics problems_of(OperatorGraph const& graph, std::vector<TileChoice> const& choices, std::size_t i) {
  Diagnostics out;
  auto const& op = graph.operators[i];
  auto const& [kernel, splits] = choices[i];
  auto const report = [&](char const* code, std::string message, std::string hint = {}) {
    out.push_back({code, Severity::error, op.where, std::move(message), {}, std::move(hint)});
  };
  if (kernel.kind != op.kind)
    report("E0150", fmt::format("{} is a {}, but kernel {} is a {}", op.name, to_text(op.kind), kernel.name,
                                to_text(kernel.kind)));
  if (kernel.tile_m < 1 || kernel.tile_n < 1 || kernel.tile_k < 1) {
    report("E0151", fmt::format("kernel {} of {}: a tile of {} x {} x {} is not possible", kernel.name,
                                op.name, kernel.tile_m, kernel.tile_n, kernel.tile_k));
    return out;
  }
  if (kernel.kind == op.kind && find_form(kernel, op.epilogue, graph.type) == nullptr)
    report("E0151", fmt::format("kernel {} of {} is not compiled for {} with epilogue {}", kernel.name,
                                op.name, to_text(graph.type), to_text(op.epilogue)));
  if (is_gated(op.epilogue) && kernel.tile_n % 2 != 0)
    report("E0151", fmt::format("kernel {} of {}: a gated epilogue needs an even tile width, not {}",
                                kernel.name, op.name, kernel.tile_n));
  auto const slices = multiplies(op) ? (op.k + kernel.tile_k - 1) / kernel.tile_k : 1;
  if (splits < 1 || splits > slices)
    report("E0151", fmt::format("{} cannot be split {} ways along k", op.name, splits),
           multiplies(op) ? fmt::format("k = {} is {} slices of {}: use 1 to {} splits", op.k, slices,
                                        kernel.tile_k, slices)
                          : fmt::format("a {} has nothing to split: use 1", to_text(op.kind)));
  else if (kernel.splits != k_any_splits && splits != kernel.splits)
    report("E0151", fmt::format("kernel {} of {} is compiled for {} split{}, not {}", kernel.name, op.name,
                                kernel.splits, kernel.splits == 1 ? "" : "s", splits));
  if (op.kind == OperatorKind::attention && kernel.kind == op.kind && kernel.tile_n != op.k)
    report("E0151", fmt::format("kernel {} of {} is for heads of {}, not {}", kernel.name, op.name,
                                kernel.tile_n, op.k));
  else if (op.kind == OperatorKind::attention && kernel.kind == op.kind)
    if (auto const why = problem_of_new_tokens(kernel, graph); !why.empty())
      report("E0151", fmt::format("kernel {} of {} {}", kernel.name, op.name, why));
  if (auto const why = problem_of_few_rows(kernel, op); !why.empty())
    report("E0151", fmt::format("kernel {} of {} {}", kernel.name, op.name, why));
  if (is_layer_kind(op.kind) && kernel.kind == op.kind && !fits_rows(kernel, op))
    report("E0151",
           op.kind == OperatorKind::norm
               ? fmt::format("kernel {} of {} is for rows of {} to {} columns, a multiple of 4, not {}",
                             kernel.name, op.name, kernel.tile_k, kernel.tile_n, op.n)
               : fmt::format("kernel {} of {} is for heads of {}, not {}", kernel.name, op.name,
                             kernel.tile_n, op.k));
  if (kernel.whole && is_grouped(op))
    report("E0151", fmt::format("kernel {} of {} computes one matrix, not {} groups", kernel.name, op.name,
                                op.groups.size()));
  for (auto const& input : op.inputs)
    for (std::size_t j = 0; j < i && is_grouped(op); ++j)
      if (graph.operators[j].name == input.producer && choices[j].kernel.tile_m != kernel.tile_m)
        report("E0151",
               fmt::format("groups of {} and {} must be cut into tiles of as many rows, not {} and {}",
                           input.producer, op.name, choices[j].kernel.tile_m, kernel.tile_m),
               "choose kernels with the same tile_m");
  if (kernel.whole && op.batch > 1)
    report("E0151", fmt::format("kernel {} of {} computes one matrix, not a batch of {}", kernel.name,
                                op.name, op.batch));
  return out;
}

Diagnostics problems_of(OperatorGraph const& graph, std::vector<TileChoice> const& choices) {
  if (choices.size() != graph.operators.size())
    return {{"E0150",
             Severity::error,
             graph.where,
             fmt::format("{} operators, but {} tile choices", graph.operators.size(), choices.size()),
             {},
             "give one choice for each operator, in order"}};
  Diagnostics out;
  for (std::size_t i = 0; i < choices.size(); ++i)
    for (auto& problem : problems_of(graph, choices, i)) out.push_back(std::move(problem));
  return out;
}

std::optional<Diagnostic> oversized(Stage const& stage) {
  std::vector<std::int64_t> factors{stage.splits};
  std::string grid;
  for (auto const& dim : stage.grid) {
    factors.push_back(dim.extent);
    grid += (grid.empty() ? "" : " x ") + std::to_string(dim.extent);
  }
  if (product_fits(factors)) return std::nullopt;
  return Diagnostic{
      "E0154",
      Severity::error,
      stage.where,
      fmt::format("{} would have {} tiles, each in {}: more than {} blocks", stage.name, grid,
                  stage.splits == 1 ? "one block" : fmt::format("{} splits", stage.splits), k_largest_size),
      {},
      "use larger tiles"};
}

}  // namespace tessera
