// SPDX-License-Identifier: Apache-2.0
#include "attention_layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace tessera {
namespace {

constexpr int k_element_bytes = 2;
constexpr double k_rounding = 1e-6;  ///< of numbers of keys that a plan's bytes say

std::string output_of(Stage const& stage) { return stage.output.empty() ? stage.name : stage.output; }

OperatorKind kind_of(BindRequest const& request, Stage const& stage) {
  auto const* kernel = request.kernels.find(stage.kernel);
  return kernel == nullptr ? OperatorKind::gemm : kernel->kind;
}

Operand const* operand_of(Stage const& stage, char const* name) {
  auto const found = std::find_if(stage.operands.begin(), stage.operands.end(),
                                  [&](Operand const& one) { return one.name == name; });
  return found == stage.operands.end() ? nullptr : &*found;
}

/// The stage that writes a buffer; null: it comes from outside.
Stage const* writer_of(BindRequest const& request, std::string const& buffer) {
  auto const& stages = request.plan.pipeline.stages;
  auto const found =
      std::find_if(stages.begin(), stages.end(), [&](Stage const& one) { return output_of(one) == buffer; });
  return found == stages.end() ? nullptr : &*found;
}

/// Nothing: they do not go together.
std::optional<HeadCounts> counts_of(std::int64_t all_columns, std::int64_t query_columns,
                                    std::int64_t head_size) {
  auto const others = all_columns - query_columns;
  if (head_size < 1 || query_columns < head_size || query_columns % head_size != 0 || others < 1 ||
      others % (2 * head_size) != 0)
    return {};
  auto const heads = query_columns / head_size, key_heads = others / (2 * head_size);
  if (heads % key_heads != 0) return {};
  return HeadCounts{static_cast<int>(heads), static_cast<int>(key_heads), static_cast<int>(head_size)};
}

/// Keys that an average tile of `tokens` queries sees.
double mean_keys(std::int64_t tokens, std::int64_t tile) {
  auto const blocks = (tokens + tile - 1) / tile;
  double sum = 0;
  for (std::int64_t b = 0; b < blocks; ++b) sum += static_cast<double>(std::min((b + 1) * tile, tokens));
  return sum / static_cast<double>(blocks);
}

void const* behind(Tensor const& tensor, std::int64_t elements) {
  return static_cast<std::byte const*>(tensor.data) + k_element_bytes * elements;
}

/// Of all kinds of sequences: types, heads, and where they lie.
AttentionCall with_operands(FusedHeads const& heads, AttentionCall call) {
  auto const& [q, out, counts, together] = heads;
  auto& p = call.problem;
  p.type = q.type == ElementType::fp16 ? gpu::ElementType::fp16 : gpu::ElementType::bf16;
  p.causal = true;
  p.heads = counts.heads;
  p.key_heads = counts.key_heads;
  p.head_size = counts.head_size;
  p.query_rows = p.key_rows = static_cast<int>(out.rows);
  auto const size = counts.head_size;
  auto const of_key_head = (counts.group() + 2) * size;
  p.q = {q.columns, size, together ? of_key_head : 0};
  p.k = p.v = {q.columns, together ? of_key_head : size, 0};
  call.q = q.data;
  call.k = behind(q, together ? counts.group() * size : counts.heads * size);
  call.v = behind(q, together ? (counts.group() + 1) * size : (counts.heads + counts.key_heads) * size);
  call.out = out.data;
  return call;
}

/// Of prompts of unequal length: how long they are is in device memory.
Expected<void> read_offsets(BindRequest const& request, HeadCounts const& counts, TileGrid const& grid,
                            AttentionCall& call) {
  auto const offsets = tensor_of(request, 0, "offsets");
  if (!offsets) return tl::make_unexpected(offsets.error());
  if (offsets->type != ElementType::int32 || offsets->rows != 1 || offsets->columns < 2)
    return tl::make_unexpected(
        cannot_bind(
            request, 0, "offsets",
            fmt::format("they are {} x {} of {}", offsets->rows, offsets->columns, to_text(offsets->type)),
            "give in int32 where each prompt begins, and where the last one ends")
            .error());
  if (grid.rank != 2 || grid.extent[0] != counts.heads)
    return tl::make_unexpected(
        cannot_bind(request, 0, "heads",
                    fmt::format("{} heads are not the columns of its tiles", counts.heads),
                    "let a column of tiles be a head")
            .error());
  call.problem.sequences = static_cast<int>(offsets->columns) - 1;
  call.problem.query_offsets = call.problem.key_offsets = static_cast<int const*>(offsets->data);
  call.packed_blocks = grid.extent[1];
  return {};
}

}  // namespace

Expected<HeadCounts> turned_heads(BindRequest const& request) {
  auto const out = tensor_of(request, 0, "");
  if (!out) return tl::make_unexpected(out.error());
  auto const head_size = request.kernel().tile_n;
  for (auto const& reader : request.plan.pipeline.stages) {
    auto const* queries = operand_of(reader, "a");
    if (kind_of(request, reader) != OperatorKind::attention || queries == nullptr ||
        queries->buffer != output_of(request.stage()))
      continue;
    auto const& buffers = request.plan.pipeline.buffers;
    auto const written = std::find_if(buffers.begin(), buffers.end(),
                                      [&](Buffer const& one) { return one.name == output_of(reader); });
    auto const query_columns = written == buffers.end() ? 0 : written->columns;
    if (auto const counts = counts_of(out->columns, query_columns, head_size)) return *counts;
    return tl::make_unexpected(
        cannot_bind(request, 0, "heads",
                    fmt::format("{} columns are no queries of {} columns and as many keys as values, in "
                                "heads of {}",
                                out->columns, query_columns, head_size),
                    "let the plan's attention read queries, keys and values of whole heads")
            .error());
  }
  return tl::make_unexpected(
      cannot_bind(request, 0, "heads",
                  "no attention of the plan reads them, which would say how many are keys",
                  "plan a whole layer (--block layer)")
          .error());
}

std::optional<int> causal_sequences(std::int64_t rows, std::int64_t blocks, std::int64_t tile_queries,
                                    double keys_seen) {
  for (std::int64_t sequences = 1; sequences <= std::min(rows, blocks); ++sequences) {
    if (rows % sequences != 0) continue;
    auto const tokens = rows / sequences;
    if ((tokens + tile_queries - 1) / tile_queries * sequences != blocks) continue;
    auto const seen = mean_keys(tokens, tile_queries);
    if (std::fabs(seen - keys_seen) <= k_rounding * seen) return static_cast<int>(sequences);
  }
  return {};
}

bool sees_all_keys(std::int64_t rows, std::int64_t blocks, std::int64_t tile_queries, double keys_seen) {
  return blocks > 1 && (rows + tile_queries - 1) / tile_queries == blocks &&
         std::fabs(static_cast<double>(rows) - keys_seen) <= k_rounding * keys_seen;
}

Expected<FusedHeads> fused_heads(BindRequest const& request) {
  auto const refused = [&](char const* field, std::string const& why, char const* way_out) {
    return tl::make_unexpected(cannot_bind(request, 0, field, why, way_out).error());
  };
  auto const q = tensor_of(request, 0, "a"), k = tensor_of(request, 0, "b"), v = tensor_of(request, 0, "c"),
             out = tensor_of(request, 0, "");
  for (auto const* tensor : {&q, &k, &v, &out}) {
    if (!*tensor) return tl::make_unexpected(tensor->error());
    if ((*tensor)->type != q->type || (*tensor)->batch != 1 || (*tensor)->stride() != (*tensor)->columns ||
        (*tensor)->rows != out->rows)
      return refused("operands", "it takes matrices of one type and as many rows, without gaps between them",
                     "give the kernel matrices of their own");
  }
  if (q->data != k->data || q->data != v->data)
    return refused("operands", "queries, keys and values are to be columns of one matrix",
                   "let one product make all three");
  if (bytes_of(q->type) != k_element_bytes)
    return refused("the type", fmt::format("it is not compiled for {}", to_text(q->type)),
                   "take bf16 or fp16");
  auto const counts = counts_of(q->columns, out->columns, request.kernel().tile_n);
  if (!counts)
    return refused("heads",
                   fmt::format("{} columns are no queries of {} columns and as many keys as values, in heads "
                               "of {}",
                               q->columns, out->columns, request.kernel().tile_n),
                   "let the matrix have whole heads");
  auto const* maker = writer_of(request, operand_of(request.stage(), "a")->buffer);
  return FusedHeads{*q, *out, *counts,
                    maker != nullptr && kind_of(request, *maker) == OperatorKind::turn_heads};
}

Expected<AttentionCall> attention_call(BindRequest const& request) {
  auto const refused = [&](char const* field, std::string const& why, char const* way_out) {
    return tl::make_unexpected(cannot_bind(request, 0, field, why, way_out).error());
  };
  auto const& stage = request.stage();
  for (auto const& operand : stage.operands)
    if (operand.name != "a" && operand.name != "b" && operand.name != "c" && operand.name != "offsets")
      return refused("cached keys",
                     fmt::format("operand \"{}\" is in no array with the new ones", operand.name),
                     "plan a prompt without --cached, or one new token of each sequence (--tokens 1)");
  auto const heads = fused_heads(request);
  if (!heads) return tl::make_unexpected(heads.error());
  auto const& counts = heads->counts;
  auto const& out = heads->out;
  AttentionCall call;
  call.tile_queries = request.kernel().tile_m;
  auto const grid = stage.tile_grid();
  if (operand_of(stage, "offsets") != nullptr) {
    if (auto fine = read_offsets(request, counts, grid, call); !fine)
      return tl::make_unexpected(fine.error());
    return with_operands(*heads, call);
  }
  auto const* keys = operand_of(stage, "b");
  auto const seen = keys->bytes_per_block / static_cast<double>(counts.head_size * k_element_bytes);
  // Several causal sequences cannot see on average as many keys as there are rows.
  bool const all_keys = sees_all_keys(out.rows, grid.extent[1], call.tile_queries, seen);
  auto const sequences = all_keys ? 1 : causal_sequences(out.rows, grid.extent[1], call.tile_queries, seen);
  if (grid.rank != 2 || grid.extent[0] != counts.heads || !sequences)
    return refused("the mask",
                   fmt::format("{} x {} tiles of {} queries that see {:.1f} keys on average are no "
                               "prompts of one length behind a causal mask, nor one prompt without a mask",
                               grid.extent[0], grid.extent[1], call.tile_queries, seen),
                   "plan causal prompts that are no longer than a window, or one prompt that sees all keys");
  call.problem.sequences = *sequences;
  call.problem.longest_queries = static_cast<int>(out.rows) / *sequences;
  call = with_operands(*heads, call);
  call.problem.causal = !all_keys;
  return call;
}

}  // namespace tessera
