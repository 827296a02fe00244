// SPDX-License-Identifier: Apache-2.0
#include "describe/attention_sight.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tessera {

bool is_causal(AttentionShape const& shape) { return shape.causal || shape.window > 0; }

KeysSeen keys_seen(AttentionShape const& a, std::int64_t tile_queries, std::int64_t tile_keys) {
  auto const tiles = (a.tokens + tile_queries - 1) / tile_queries;
  KeysSeen sum;
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    auto const first = tile * tile_queries;
    auto const last = std::min(first + tile_queries, a.tokens) - 1;
    auto const end = a.cached + (is_causal(a) ? last + 1 : a.tokens);
    auto const begin = a.window > 0 ? std::max<std::int64_t>(a.cached + first + 1 - a.window, 0) : 0;
    sum.cached += static_cast<double>(std::max<std::int64_t>(a.cached - begin, 0));
    sum.fresh += static_cast<double>(end - std::max(begin, a.cached));
    sum.steps += static_cast<double>((end + tile_keys - 1) / tile_keys - begin / tile_keys);
  }
  auto const all = static_cast<double>(tiles);
  return {sum.cached / all, sum.fresh / all, sum.steps / all};
}

std::int64_t cached_keys_seen(AttentionShape const& a) {
  return a.window > 0 ? std::min(a.cached, a.window - 1) : a.cached;
}

bool is_cache(Operator const& op, OperatorInput const& input) {
  auto const first = std::find_if(op.inputs.begin(), op.inputs.end(),
                                  [&](OperatorInput const& other) { return other.pattern == input.pattern; });
  return input.pattern != ReadPattern::query_heads && first->name != input.name;
}

Diagnostics problems_of_attention(OperatorGraph const& graph, Operator const& op) {
  Diagnostics out;
  auto const report = [&](char const* code, std::string message, std::string hint = {}) {
    out.push_back({code, Severity::error, op.where, std::move(message), {}, std::move(hint)});
  };
  auto const& a = graph.attention;
  auto const inputs = [&](ReadPattern pattern) {
    return std::count_if(op.inputs.begin(), op.inputs.end(),
                         [&](OperatorInput const& input) { return input.pattern == pattern; });
  };
  auto const matrices = a.cached > 0 ? 2 : 1;
  auto const queries = inputs(ReadPattern::query_heads), keys = inputs(ReadPattern::key_heads),
             values = inputs(ReadPattern::value_heads);
  if (queries != 1 || keys != matrices || values != matrices ||
      queries + keys + values != static_cast<std::ptrdiff_t>(op.inputs.size()))
    report(
        "E0153",
        fmt::format("{} is an attention with {} cached tokens, and reads query_heads once, key_heads and "
                    "value_heads {}",
                    op.name, a.cached, matrices == 1 ? "once each" : "twice each, those of the cache last"),
        "give each of its inputs one of these patterns");
  for (auto const& input : op.inputs)
    if (is_cache(op, input) && !input.producer.empty())
      report("E0153",
             fmt::format("{} reads its cache \"{}\" from {}, and a cache has no producer", op.name,
                         input.name, input.producer),
             "name the input of the new tokens first");
  struct Size {
    char const* what;
    std::int64_t is, should;
  };
  for (auto const& [what, is, should] :
       {Size{"rows (sequences * tokens)", op.m, a.sequences * a.tokens},
        Size{"columns (query heads * head size)", op.n, a.query_heads * a.head_dim},
        Size{"depth (head size)", op.k, a.head_dim}, Size{"batch entries", op.batch, 1}})
    if (is != should)
      report("E0152",
             fmt::format("{} is an attention, and must have {} {}, not {}", op.name, should, what, is));
  return out;
}

}  // namespace tessera
