// SPDX-License-Identifier: Apache-2.0
// Attention in one kernel: which keys a tile's queries see, summed over tiles. Precondition of all: the
// operator has no problems (operator_check.hpp).
#pragma once

#include "tessera/describe/workload.hpp"

namespace tessera {

/// A window is causal.
bool is_causal(AttentionShape const& shape);

/// Of an average tile. Keys of the cache come before those of the new tokens.
struct KeysSeen {
  double cached = 0, fresh = 0;
  double steps = 0;  ///< times that it takes `tile_keys` keys, whole and in part
};
KeysSeen keys_seen(AttentionShape const& shape, std::int64_t tile_queries, std::int64_t tile_keys);

/// Keys of a sequence's cache that some token sees.
std::int64_t cached_keys_seen(AttentionShape const& shape);

/// Does this input bring what the cache has? It is the second of the operator's with its pattern.
bool is_cache(Operator const& op, OperatorInput const& input);

/// E0152, E0153: inputs and sizes that are not attention's. The shape's own sizes are looked at with each
/// input.
Diagnostics problems_of_attention(OperatorGraph const& graph, Operator const& op);

}  // namespace tessera
