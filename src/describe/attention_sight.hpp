// SPDX-License-Identifier: Apache-2.0
// Attention in one kernel: which keys a tile's queries see, summed over tiles. Precondition of all: the
// operator has no problems (operator_check.hpp).
#pragma once

#include "tessera/describe/workload.hpp"

namespace tessera {

/// A window is causal.
bool is_causal(AttentionShape const& shape);

/// Rows of each sequence, where they are unequal: groups of the graph's attention. Empty: all have as many.
std::vector<std::int64_t> const& prompts_of(OperatorGraph const& graph);
/// New tokens of all sequences, and what sizes of readers and producers are called that are as many.
std::int64_t all_tokens(OperatorGraph const& graph);
char const* words_of_rows(OperatorGraph const& graph);

/// The input of attention that says where each of its unequal sequences begins, and the last one ends: int32.
inline constexpr char const* k_offsets = "offsets";
/// The input of attention of one new token of each sequence that says how many tokens each has before it:
/// int32.
inline constexpr char const* k_lengths = "lengths";
/// How many sequences of unequal length are described.
constexpr std::size_t k_most_prompts = 64;

/// Of an average tile. Keys of the cache come before those of the new tokens.
struct KeysSeen {
  double cached = 0, fresh = 0;
  double steps = 0;  ///< times that it takes `tile_keys` keys, whole and in part
};
KeysSeen keys_seen(OperatorGraph const& graph, std::int64_t tile_queries, std::int64_t tile_keys);

/// Keys of a sequence's cache that some token sees.
std::int64_t cached_keys_seen(AttentionShape const& shape);

/// Does this input bring what the cache has? It is the second of the operator's with its pattern.
bool is_cache(Operator const& op, OperatorInput const& input);

/// E0152, E0153: inputs and sizes that are not attention's. The shape's own sizes are looked at with each
/// input.
Diagnostics problems_of_attention(OperatorGraph const& graph, Operator const& op);

}  // namespace tessera
