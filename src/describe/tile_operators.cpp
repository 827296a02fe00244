// SPDX-License-Identifier: Apache-2.0
// tile(): from operators with sizes to stages with grids, costs and dependences.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "describe/attention_sight.hpp"
#include "describe/layer_operators.hpp"
#include "describe/operator_check.hpp"
#include "describe/reads.hpp"
#include "describe/tile_stage.hpp"

namespace tessera {
namespace {

std::int64_t ceil_of(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// How an operator's output is cut. A gated epilogue stores one column for each pair that it computes; tiles
/// of softmax, norms and turned heads hold whole rows; a sum's tile is what it reads; no tile of attention
/// has rows of two sequences.
Tiling tiling_of(OperatorGraph const& graph, Operator const& op, KernelEntry const& kernel) {
  Tiling tiling{op.m, op.n, op.batch, kernel.tile_m, kernel.tile_n};
  if (is_gated(op.epilogue)) {
    tiling.columns = op.n / 2;
    tiling.tile_columns = std::max(kernel.tile_n / 2, 1);
  }
  if (op.kind == OperatorKind::softmax_dropout || is_layer_kind(op.kind) || kernel.whole)
    tiling.tile_columns = tiling.columns;
  if (kernel.whole) tiling.tile_rows = tiling.rows;
  if (op.kind == OperatorKind::gemm)
    for (auto const rows : op.groups) tiling.row_tiles += ceil_of(rows, tiling.tile_rows);
  auto const& shape = graph.attention;
  if (op.kind != OperatorKind::attention || kernel.whole) return tiling;
  if (!op.groups.empty())
    tiling.prompts = op.groups;
  else if (shape.sequences > 1 && shape.tokens % kernel.tile_m != 0)
    tiling.sequence_rows = shape.tokens;
  return tiling;
}

std::vector<Access> computed_accesses(OperatorKind reader, ReadPattern pattern, Edge const& edge) {
  if (reader == OperatorKind::attention) {
    if (pattern == ReadPattern::query_heads) return read_fused_queries(edge);
    return pattern == ReadPattern::key_heads ? read_fused_keys(edge) : read_fused_values(edge);
  }
  switch (pattern) {
    case ReadPattern::rows:
    case ReadPattern::same_batch_rows:
    case ReadPattern::swiglu_pair: return read_rows(edge);
    case ReadPattern::query_heads: return read_query_heads(edge);
    case ReadPattern::key_heads: return read_key_heads(edge);
    case ReadPattern::value_heads: return read_value_heads(edge);
    case ReadPattern::heads_to_columns: return read_heads_to_columns(edge);
    case ReadPattern::conv_halo: return read_conv_halo(edge);
    case ReadPattern::same_tile: return read_same_tile(edge);
  }
  return {};
}

/// computed_accesses() of a graph, each once: layers of a network are mostly alike.
class KnownAccesses {
 public:
  std::vector<Access> const& of(OperatorKind reader, ReadPattern pattern, Edge const& edge) {
    auto const [place, fresh] = known_.try_emplace({reader, pattern, edge.consumer, edge.producer});
    if (fresh) place->second = computed_accesses(reader, pattern, edge);
    return place->second;
  }

 private:
  // Shapes of attention and convolution are the graph's.
  std::map<std::tuple<OperatorKind, ReadPattern, Tiling, Tiling>, std::vector<Access>> known_;
};

std::int64_t tallest_tile(Tiling const& tiling) {
  if (!tiling.prompts.empty())
    return std::min(tiling.tile_rows, *std::max_element(tiling.prompts.begin(), tiling.prompts.end()));
  return std::min(tiling.tile_rows, tiling.sequence_rows > 0 ? tiling.sequence_rows : tiling.rows);
}

constexpr int k_offset_bytes = 4;

/// Of attention in one kernel: a block loads its queries, and of keys or values those that some of them see.
Operand attention_operand(OperatorGraph const& graph, Operator const& op, OperatorInput const& input,
                          Tiling const& tiling, KernelEntry const& kernel) {
  auto const& shape = graph.attention;
  auto const row_bytes = static_cast<double>(shape.head_dim * graph.element_bytes);
  Operand operand{input.name, input.buffer, 0, 0};
  if (input.name == k_offsets) {  // all of them: a block finds its sequence by itself
    operand.bytes_per_block = static_cast<double>((shape.sequences + 1) * k_offset_bytes);
    operand.unique_bytes = operand.bytes_per_block;
    return operand;
  }
  if (input.name == k_lengths) {
    operand.bytes_per_block = operand.unique_bytes = static_cast<double>(shape.sequences * k_offset_bytes);
    return operand;
  }
  if (input.pattern == ReadPattern::query_heads && kernel.whole) {
    operand.bytes_per_block = operand.unique_bytes =
        static_cast<double>(op.m) * static_cast<double>(shape.query_heads) * row_bytes;
    return operand;
  }
  if (input.pattern == ReadPattern::query_heads) {
    operand.bytes_per_block = static_cast<double>(op.m) / static_cast<double>(tiling.grid_y()) * row_bytes;
    operand.unique_bytes = static_cast<double>(op.m) * static_cast<double>(shape.query_heads) * row_bytes;
    auto const whole = static_cast<double>(tallest_tile(tiling)) * row_bytes;
    if (whole > operand.bytes_per_block) operand.full_bytes = whole;
    return operand;
  }
  auto const seen = keys_seen(graph, kernel.tile_m, kernel.tile_k);
  bool const cache = is_cache(op, input);
  operand.bytes_per_block = (cache ? seen.cached : seen.fresh) * row_bytes;
  auto const keys = cache ? shape.sequences * cached_keys_seen(shape) : all_tokens(graph);
  operand.unique_bytes = static_cast<double>(shape.kv_heads) * static_cast<double>(keys) * row_bytes;
  if (kernel.whole) operand.bytes_per_block = operand.unique_bytes;
  return operand;
}

/// Bytes of one operand, for tiles of so many rows and columns.
Operand operand_of(OperatorGraph const& graph, Operator const& op, OperatorInput const& input,
                   TileChoice const& choice, double rows, double columns) {
  auto const bytes = static_cast<double>(graph.element_bytes);
  auto const depth = static_cast<double>(op.k) / choice.splits;
  auto const all = static_cast<double>(op.batch);
  auto const& shape = graph.attention;
  Operand operand{input.name, input.buffer, 0, 0};
  if (is_layer_kind(op.kind)) {
    operand.bytes_per_block = layer_operand_bytes(graph, op, input, rows);
    operand.unique_bytes = layer_unique_bytes(graph, op, input);
    return operand;
  }
  if (reads_wide(op, input)) {  // by the block of a tile that adds it, one of its splits
    operand.bytes_per_block = rows * columns * k_wide_bytes / choice.splits;
    operand.unique_bytes = static_cast<double>(op.m) * static_cast<double>(op.n) * k_wide_bytes;
    return operand;
  }

  // The right-hand matrix of a GEMM, or the left-hand one?
  bool const keys_or_values =
      input.pattern == ReadPattern::key_heads || input.pattern == ReadPattern::value_heads;
  if (!multiplies(op)) {
    operand.bytes_per_block = rows * columns * bytes;
    operand.unique_bytes = static_cast<double>(op.m) * static_cast<double>(op.n) * all * bytes;
  } else if (keys_or_values) {
    // K and V are shared by a group of query heads; of their rows, `cached` come from the cache.
    auto const keys = static_cast<double>(shape.cached + shape.tokens);
    auto const part = static_cast<double>(input.producer.empty() ? shape.cached : shape.tokens) / keys;
    operand.bytes_per_block = columns * depth * bytes * part;
    operand.unique_bytes =
        static_cast<double>(shape.sequences * shape.kv_heads * shape.head_dim) * keys * bytes * part;
  } else if (is_right_hand(op, input)) {
    operand.bytes_per_block = columns * depth * bytes;
    operand.unique_bytes = static_cast<double>(op.n) * static_cast<double>(op.k) * all * bytes *
                           static_cast<double>(std::max<std::size_t>(op.groups.size(), 1));
  } else {
    auto const pair = input.pattern == ReadPattern::swiglu_pair ? 2.0 : 1.0;  // gate and up
    operand.bytes_per_block = pair * rows * depth * bytes;
    operand.unique_bytes = pair * static_cast<double>(op.m) * static_cast<double>(op.k) * all * bytes;
    if (op.kind == OperatorKind::conv2d)  // every pixel is loaded r*s times, but is one pixel
      operand.unique_bytes /= static_cast<double>(graph.conv.r * graph.conv.s);
  }
  return operand;
}

/// Averaged over the blocks, so that the grid's total is exact at ragged edges; and those of a whole tile.
Operand operand_of(OperatorGraph const& graph, Operator const& op, OperatorInput const& input,
                   Tiling const& tiling, TileChoice const& choice) {
  if (op.kind == OperatorKind::attention) return attention_operand(graph, op, input, tiling, choice.kernel);
  auto operand =
      operand_of(graph, op, input, choice, static_cast<double>(op.m) / static_cast<double>(tiling.grid_y()),
                 static_cast<double>(op.n) / static_cast<double>(tiling.grid_x()));
  if (choice.kernel.whole || op.kind != OperatorKind::gemm) return operand;
  auto const columns = std::min<std::int64_t>(op.n, choice.kernel.tile_n);
  auto const whole = operand_of(graph, op, input, choice, static_cast<double>(tallest_tile(tiling)),
                                static_cast<double>(columns));
  if (whole.bytes_per_block > operand.bytes_per_block) operand.full_bytes = whole.bytes_per_block;
  return operand;
}

/// What the buffers hold, where it is a plain matrix: all but parts of a fused tensor and caches. `known`:
/// their names.
void add_buffers(OperatorGraph const& graph, Operator const& op, std::vector<Buffer>& buffers,
                 std::set<std::string>& known) {
  auto const add = [&](std::string const& name, OutsideMatrix const& matrix) {
    if (known.insert(name).second)
      buffers.push_back({name, matrix.rows, matrix.columns, matrix.batch, to_text(matrix.type)});
  };
  for (auto const& input : op.inputs)
    if (auto const matrix = outside_matrix(graph, op, input)) add(input.buffer, *matrix);
  add(output_of(op),
      {output_rows(op), output_columns(op), op.batch, writes_wide(op) ? ElementType::fp32 : graph.type});
}

Stage stage_of(OperatorGraph const& graph, Operator const& op, TileChoice const& choice) {
  auto const tiling = tiling_of(graph, op, choice.kernel);
  Stage stage;
  stage.name = op.name;
  stage.grid = {{"x", tiling.grid_x()}, {"y", tiling.grid_y()}};
  if (op.batch > 1) stage.grid.push_back({"z", op.batch});
  stage.splits = choice.splits;
  stage.output = output_of(op);
  stage.kernel = choice.kernel.name;
  if (op.epilogue != Epilogue::none) stage.activation = to_text(op.epilogue);
  stage.last_split_posts = choice.kernel.last_split_posts && choice.splits > 1;
  if (choice.kernel.whole)
    stage.efficiency = choice.kernel.efficiency, stage.fixed_ns = choice.kernel.fixed_ns;
  stage.can = choice.kernel.can;
  stage.cluster_rows = choice.kernel.cluster_m;
  stage.cluster_columns = choice.kernel.cluster_n;
  auto const& form = *find_form(choice.kernel, op.epilogue, graph.type);  // problems_of has seen it
  stage.resources = form.resources;
  stage.pipeline_stages = form.pipeline_stages;
  stage.where = op.where;
  for (auto const& input : op.inputs) {
    stage.operands.push_back(operand_of(graph, op, input, tiling, choice));
    // The blocks of a cluster that lie above each other read the same columns of the right-hand matrix.
    stage.operands.back().multicast =
        is_right_hand(op, input) ? choice.kernel.cluster_m : choice.kernel.cluster_n;
  }

  if (op.kind == OperatorKind::sum) {
    stage.store_bytes_per_block = static_cast<double>(graph.element_bytes);
    return stage;
  }
  stage.store_bytes_per_block = static_cast<double>(tiling.rows) / static_cast<double>(tiling.grid_y()) *
                                static_cast<double>(tiling.columns) / static_cast<double>(tiling.grid_x()) *
                                stored_bytes(graph, op);
  if (op.kind == OperatorKind::attention && choice.kernel.whole) {
    auto const& shape = graph.attention;
    auto const keys = static_cast<double>(cached_keys_seen(shape) + 1);
    stage.flops_per_block =
        4.0 * static_cast<double>(op.m) * static_cast<double>(op.n) * keys;  // scores, and weighted values
  } else if (op.kind == OperatorKind::attention) {
    // Whole tiles of scores and of results, also where a mask hides a part of them. An average block stands
    // for all: behind a causal mask the last ones look at twice as many keys.
    auto const& kernel = choice.kernel;
    auto const steps = keys_seen(graph, kernel.tile_m, kernel.tile_k).steps;
    stage.k_steps = std::max(static_cast<int>(std::lround(steps)), 1);
    stage.flops_per_block = 4.0 * kernel.tile_m * kernel.tile_n * kernel.tile_k * steps;
  } else if (multiplies(op) && choice.kernel.whole) {
    stage.flops_per_block =
        2.0 * static_cast<double>(op.m) * static_cast<double>(op.n) * static_cast<double>(op.k);
  } else if (multiplies(op)) {
    // The matrix units work on whole tiles, also where a tile reaches over the edge.
    auto const steps = ceil_of(ceil_of(op.k, choice.kernel.tile_k), choice.splits);
    stage.k_steps = static_cast<int>(steps);
    stage.flops_per_block =
        2.0 * choice.kernel.tile_m * choice.kernel.tile_n * choice.kernel.tile_k * static_cast<double>(steps);
  } else if (!is_layer_kind(op.kind)) {  // whose rows are held whole
    stage.k_steps = static_cast<int>(
        ceil_of(std::min<std::int64_t>(op.n, tiling.tile_columns), std::max(choice.kernel.tile_n, 1)));
  }
  return stage;
}

}  // namespace

Expected<Stage> tile_stage(OperatorGraph const& graph, std::vector<TileChoice> const& choices,
                           std::size_t i) {
  // Only groups must be cut alike by several operators.
  bool const grouped = std::any_of(graph.operators.begin(), graph.operators.end(),
                                   [](Operator const& op) { return !op.groups.empty(); });
  auto problems = grouped ? problems_of(graph, choices) : problems_of(graph, choices, i);
  if (!problems.empty()) return tl::make_unexpected(std::move(problems));
  auto stage = stage_of(graph, graph.operators[i], choices[i]);
  if (auto problem = oversized(stage)) return refuse(std::move(*problem));
  return stage;
}

Expected<Pipeline> tile(OperatorGraph const& graph, std::vector<TileChoice> const& choices) {
  auto problems = problems_of(graph);
  if (problems.empty()) problems = problems_of(graph, choices);
  if (!problems.empty()) return tl::make_unexpected(std::move(problems));

  Pipeline pipeline;
  std::set<std::string> buffers;
  pipeline.name = graph.name;
  pipeline.where = graph.where;
  for (std::size_t i = 0; i < graph.operators.size(); ++i) {
    pipeline.stages.push_back(stage_of(graph, graph.operators[i], choices[i]));
    add_buffers(graph, graph.operators[i], pipeline.buffers, buffers);
    if (auto problem = oversized(pipeline.stages.back())) problems.push_back(std::move(*problem));
  }
  if (!problems.empty()) return tl::make_unexpected(std::move(problems));

  KnownAccesses accesses;
  for (std::size_t i = 0; i < graph.operators.size(); ++i) {
    auto const& op = graph.operators[i];
    for (auto const& input : op.inputs) {
      if (input.producer.empty()) continue;
      auto const producer = find_stage(pipeline, input.producer);  // problems_of has seen that it is there
      auto const from = static_cast<std::size_t>(producer);
      Edge const edge{tiling_of(graph, op, choices[i].kernel),
                      tiling_of(graph, graph.operators[from], choices[from].kernel), graph.attention,
                      graph.conv};
      pipeline.dependences.push_back({static_cast<int>(i), producer, input.name,
                                      accesses.of(op.kind, input.pattern, edge), OnComplete::release_waiters,
                                      op.where, input.policy});
    }
  }
  return pipeline;
}

}  // namespace tessera
