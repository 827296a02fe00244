// SPDX-License-Identifier: Apache-2.0
#include "describe/attention_sight.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tessera {
namespace {

/// Of one sequence of so many tokens, all of its tiles together, which are counted.
void add_keys_seen(AttentionShape const& a, std::int64_t tokens, std::int64_t tile_queries,
                   std::int64_t tile_keys, KeysSeen& sum, std::int64_t& counted) {
  auto const tiles = (tokens + tile_queries - 1) / tile_queries;
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    auto const first = tile * tile_queries;
    auto const last = std::min(first + tile_queries, tokens) - 1;
    auto const end = a.cached + (is_causal(a) ? last + 1 : tokens);
    auto const begin = a.window > 0 ? std::max<std::int64_t>(a.cached + first + 1 - a.window, 0) : 0;
    sum.cached += static_cast<double>(std::max<std::int64_t>(a.cached - begin, 0));
    sum.fresh += static_cast<double>(end - std::max(begin, a.cached));
    sum.steps += static_cast<double>((end + tile_keys - 1) / tile_keys - begin / tile_keys);
  }
  counted += tiles;
}

}  // namespace

bool is_causal(AttentionShape const& shape) { return shape.causal || shape.window > 0; }

std::vector<std::int64_t> const& prompts_of(OperatorGraph const& graph) {
  static std::vector<std::int64_t> const none;
  for (auto const& op : graph.operators)
    if (op.kind == OperatorKind::attention && !op.groups.empty()) return op.groups;
  return none;
}

std::int64_t all_tokens(OperatorGraph const& graph) {
  auto const& prompts = prompts_of(graph);
  if (prompts.empty()) return graph.attention.sequences * graph.attention.tokens;
  constexpr std::int64_t k_most = std::int64_t{1} << 32;  // nothing is so large that is let through
  std::int64_t sum = 0;
  for (auto const tokens : prompts) sum = std::min(sum + std::clamp<std::int64_t>(tokens, 0, k_most), k_most);
  return sum;
}

char const* words_of_rows(OperatorGraph const& graph) {
  return prompts_of(graph).empty() ? "rows (sequences * tokens)" : "rows (tokens of all prompts)";
}

KeysSeen keys_seen(OperatorGraph const& graph, std::int64_t tile_queries, std::int64_t tile_keys) {
  auto const& a = graph.attention;
  auto const& prompts = prompts_of(graph);
  KeysSeen sum;
  std::int64_t counted = 0;
  if (prompts.empty()) add_keys_seen(a, a.tokens, tile_queries, tile_keys, sum, counted);
  for (auto const tokens : prompts) add_keys_seen(a, tokens, tile_queries, tile_keys, sum, counted);
  auto const all = static_cast<double>(counted);
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

namespace {

/// What is wrong with an attention's groups, which are positive and its rows together; empty: nothing.
std::string problem_of_prompts(OperatorGraph const& graph, Operator const& op) {
  auto const& a = graph.attention;
  if (op.groups != prompts_of(graph)) return "another attention of the graph has other prompts";
  if (op.groups.empty()) return {};
  auto const most = *std::max_element(op.groups.begin(), op.groups.end());
  if (op.groups.size() > k_most_prompts)
    return fmt::format("{} prompts of unequal length are more than {}", op.groups.size(), k_most_prompts);
  if (a.sequences != std::ssize(op.groups) || a.tokens != most)
    return fmt::format("{} prompts of up to {} tokens are not {} sequences of up to {}", op.groups.size(),
                       most, a.sequences, a.tokens);
  if (a.cached > 0) return "prompts of unequal length have no cached tokens";
  if (!is_causal(a) || (a.window > 0 && a.window < most))
    return "prompts of unequal length are causal, and no longer than a window";
  return {};
}

}  // namespace

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
  if (auto const problem = problem_of_prompts(graph, op); !problem.empty())
    report("E0152", fmt::format("{}: {}", op.name, problem));
  auto const matrices = a.cached > 0 ? 2 : 1;
  auto const offsets = std::count_if(op.inputs.begin(), op.inputs.end(), [](OperatorInput const& input) {
    return input.name == k_offsets && input.pattern == ReadPattern::rows;
  });
  if (offsets != (op.groups.empty() ? 0 : 1))
    report(
        "E0153",
        fmt::format("{} is an attention over {}, and reads \"{}\" {}", op.name,
                    op.groups.empty() ? "sequences of one length" : "prompts of unequal length", k_offsets,
                    op.groups.empty() ? "in vain" : "once: where each prompt begins, and the last one ends"),
        op.groups.empty() ? "leave it out" : "name an input from outside so, without a pattern");
  auto const lengths = std::count_if(op.inputs.begin(), op.inputs.end(), [](OperatorInput const& input) {
    return input.name == k_lengths && input.pattern == ReadPattern::rows;
  });
  bool const one_new = a.tokens == 1 && a.cached > 0;
  if (lengths > (one_new ? 1 : 0))
    report("E0153",
           fmt::format("{} reads \"{}\" {}: an attention of one new token behind cached ones does, once",
                       op.name, k_lengths, lengths == 1 ? "in vain" : "several times"),
           "leave it out");
  auto const queries = inputs(ReadPattern::query_heads), keys = inputs(ReadPattern::key_heads),
             values = inputs(ReadPattern::value_heads);
  if (queries != 1 || keys != matrices || values != matrices ||
      queries + keys + values + offsets + lengths != static_cast<std::ptrdiff_t>(op.inputs.size()))
    report(
        "E0153",
        fmt::format("{} is an attention with {} cached tokens, and reads query_heads once, key_heads and "
                    "value_heads {}",
                    op.name, a.cached, matrices == 1 ? "once each" : "twice each, those of the cache last"),
        "give each of its inputs one of these patterns");
  for (auto const& input : op.inputs)
    if ((input.name == k_offsets || input.name == k_lengths) && !input.producer.empty())
      report("E0153", fmt::format("{} reads \"{}\" from {}, and it comes from outside", op.name, input.name,
                                  input.producer));
  std::string const* cache = nullptr;
  for (auto const& input : op.inputs) {
    if (!is_cache(op, input)) continue;
    if (cache != nullptr && *cache == input.buffer)
      report("E0153",
             fmt::format("{} reads \"{}\" as both its cached keys and values", op.name, input.buffer),
             "name a buffer for each: new ones are stored there");
    cache = &input.buffer;
  }
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
       {Size{words_of_rows(graph), op.m, all_tokens(graph)},
        Size{"columns (query heads * head size)", op.n, a.query_heads * a.head_dim},
        Size{"depth (head size)", op.k, a.head_dim}, Size{"batch entries", op.batch, 1}})
    if (is != should)
      report("E0152",
             fmt::format("{} is an attention, and must have {} {}, not {}", op.name, should, what, is));
  return out;
}

}  // namespace tessera
