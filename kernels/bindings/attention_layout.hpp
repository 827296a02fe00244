// SPDX-License-Identifier: Apache-2.0
// Where queries, keys and values of a plan's attention lie, and who sees whom: read from the plan alone.
#pragma once

#include <optional>
#include <string>

#include "kernels/attention_sm90/problem.hpp"
#include "tessera/run/bindings.hpp"

namespace tessera {

/// Heads of a matrix that a product has made: all queries, then all keys, then all values; or, as turned
/// heads lie, the queries, the key and the value of each key head together.
struct HeadCounts {
  int heads = 0, key_heads = 0, head_size = 0;
  int group() const { return heads / key_heads; }
};

/// Of a stage that turns heads: of the attention that reads it. E0560 where none does, or its numbers do not
/// go together.
Expected<HeadCounts> turned_heads(BindRequest const& request);

/// How many sequences of one length, each behind a causal mask, `rows` queries in `blocks` tiles are, an
/// average one of which sees so many keys. Nothing: no number of them does.
std::optional<int> causal_sequences(std::int64_t rows, std::int64_t blocks, std::int64_t tile_queries,
                                    double keys_seen);

/// Whether tiles that see so many keys on average are of one sequence of `rows` tokens each of which sees
/// all.
bool sees_all_keys(std::int64_t rows, std::int64_t blocks, std::int64_t tile_queries, double keys_seen);

/// A stage of attention's queries, keys and values: columns of one matrix.
struct FusedHeads {
  Tensor qkv, out;
  HeadCounts counts;
  bool together = false;  ///< as turned heads lie
};
/// E0560: other matrices, types or heads. E0561: tensors.
Expected<FusedHeads> fused_heads(BindRequest const& request);

/// A stage of attention as the kernel's problem, and where its operands begin.
struct AttentionCall {
  attention_sm90::Problem problem;
  void const *q = nullptr, *k = nullptr, *v = nullptr;
  void* out = nullptr;
  int tile_queries = 0;
  int packed_blocks = 0;  ///< of prompts of unequal length, all together; 0: they are of one length
};
/// E0560: cached keys, a mask that is neither causal alone nor none in one sequence, heads that do not fit.
/// E0561: tensors. An attention with an operand "offsets" has prompts of unequal length, which are causal and
/// no longer than a window.
Expected<AttentionCall> attention_call(BindRequest const& request);

}  // namespace tessera
