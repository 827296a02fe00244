// SPDX-License-Identifier: Apache-2.0
#include "unlaunched.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/shipped_kernels.hpp"

namespace tessera::cli {
namespace {

/// The most queries that a tile of attention has.
constexpr std::int64_t k_longest_tile = 192;

bool has_kernel(OperatorGraph const& graph, Operator const& op) {
  auto const& kernels = shipped_kernels().kernels();
  return std::any_of(kernels.begin(), kernels.end(), [&](KernelEntry const& kernel) {
    return kernel.of_new_tokens && computes(kernel, graph, op);
  });
}

/// Of one new token of each sequence.
std::optional<Unlaunched> unlaunched_step(OperatorGraph const& graph, Operator const& op) {
  auto const& a = graph.attention;
  if (!has_kernel(graph, op)) {
    auto const heads = a.query_heads / a.kv_heads;
    return Unlaunched{
        fmt::format("one new token behind cached ones in {}, {} query head{} of {} to a key head",
                    to_text(graph.type), heads, heads == 1 ? "" : "s", a.head_dim),
        "there are kernels for bf16, heads of 64, 96 and 128, and up to 8 query heads to a key head"};
  }
  bool const has_lengths = std::any_of(op.inputs.begin(), op.inputs.end(),
                                       [](OperatorInput const& input) { return input.name == "lengths"; });
  if (!has_lengths)
    return Unlaunched{
        "cached tokens and no \"lengths\"",
        "name an input of it so, from outside: how many tokens each sequence has cached, int32"};
  return {};
}

}  // namespace

std::optional<Unlaunched> unlaunched(OperatorGraph const& graph, Operator const& op) {
  auto const& a = graph.attention;
  constexpr char const* k_prompts =
      "plan and simulate it; run prompts without a cache and no longer than a window, or call "
      "attention_sm90::attention() (docs/attention.md)";
  if (generates(graph)) return unlaunched_step(graph, op);
  if (a.cached > 0)
    return Unlaunched{
        fmt::format("{} cached tokens, whose keys lie apart from those of {} new ones", a.cached, a.tokens),
        "plan and simulate it; run one new token of each sequence (--tokens 1), prompts without a "
        "cache, or call attention_sm90::attention() (docs/attention.md)"};
  if (a.window > 0 && a.window < a.tokens)
    return Unlaunched{fmt::format("a window of {} keys, which a plan does not say", a.window), k_prompts};
  if (a.causal || a.window > 0) return {};
  // A plan says how many keys an average tile sees, and no more of its mask.
  if (a.sequences > 1)
    return Unlaunched{"no mask in several sequences, which a plan does not say", k_prompts};
  if (a.tokens > k_longest_tile) return {};
  return Unlaunched{fmt::format("no mask in {} tokens, of which a tile sees as many behind one", a.tokens),
                    k_prompts};
}

std::string unlaunched_note(std::vector<SizedWorkload> const& workloads) {
  for (auto const& sized : workloads)
    if (auto const* graph = std::get_if<OperatorGraph>(&sized.workload))
      for (auto const& op : graph->operators)
        if (op.kind == OperatorKind::attention)
          if (auto const found = unlaunched(*graph, op))
            return fmt::format("note: no run launches {} with {}: {}", op.name, found->what, found->way_out);
  return {};
}

}  // namespace tessera::cli
