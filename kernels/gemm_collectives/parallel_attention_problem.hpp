// SPDX-License-Identifier: Apache-2.0
// The attention block of a tensor-parallel layer as a problem: sizes, whose heads are whose, and what is
// refused. No CUDA.
#pragma once

#include <string>
#include <tessera/diagnostic.hpp>
#include <vector>

#include "kernels/attention_sm90/problem.hpp"
#include "kernels/gemm_collectives/problem.hpp"

namespace tessera::gemm_collectives {

/// Queries and keys turned by their positions (rotary embedding).
enum class Turning {
  none,
  halves,      ///< pairs are elements i and i + head_size / 2 (Llama's)
  neighbours,  ///< pairs are elements 2 * i and 2 * i + 1 (GPT-J's)
};

/// y = attention(turned(x * w_in^T)) * w_out^T for prompts that lie in the rows of x one behind the other. A
/// rank has heads / ranks of the heads, the first one the first, and the key heads that they look at. In
/// elements, row-major, without gaps; head_size is h:
///   w_in[local_columns()][model]: rows [key head][its query heads, key, value][h], as rows_of_rank() says
///   w_out[model][local_heads() * h]: the columns of the rank's heads
///   spread: x[its tokens][model], y[its tokens][model], as shard_of() says
///   whole:  x[tokens][model],     y[tokens][model]
struct AttentionProblem {
  int tokens = 0;
  int model = 0;
  int heads = 0;      ///< of all ranks
  int key_heads = 0;  ///< of all ranks; 0: as many as heads. Head g has key head g / (heads / key_heads)
  int head_size = 128;
  /// Prompts of tokens / sequences each, or, where `ragged`, as the operands' offsets say.
  int sequences = 1;
  bool ragged = false;
  int longest = 0;  ///< where ragged: no sequence has more tokens; 0: any number
  bool causal = true;
  int window = 0;   ///< > 0: a query sees the last `window` keys up to its own; 0: no window
  float scale = 0;  ///< of scores; 0: 1 / sqrt(head_size)
  Turning turning = Turning::halves;
  Tokens rows = Tokens::spread;
  ElementType type = ElementType::bf16;
  int ranks = 2;

  int all_key_heads() const { return key_heads == 0 ? heads : key_heads; }
  int local_heads() const { return heads / ranks; }
  int local_key_heads() const { return all_key_heads() / ranks; }
  /// Query heads to a key head.
  int group() const { return heads / all_key_heads(); }
  /// Of the first product on a rank: its queries, keys and values.
  int local_columns() const { return local_key_heads() * (group() + 2) * head_size; }
  auto operator<=>(AttentionProblem const&) const = default;
};

/// "tensor-parallel attention of 8 tokens, 8192 columns, 64 heads (8 of keys) of 128, on 2 GPUs".
std::string to_string(AttentionProblem const& problem);

/// E0581 for sizes that do not divide among the ranks, E0590 for what the kernel of attention is not for.
Expected<void> check_problem(AttentionProblem const& problem);

// Of a problem that check_problem() lets through:

/// Its products with a collective. The first one of whole tokens is a product alone.
Problem first_product(AttentionProblem const& problem);
Problem second_product(AttentionProblem const& problem);

/// What stands between them on a rank, in what the first product leaves: q at its begin, k and v behind.
/// `offsets`: [sequences + 1] in device memory, where ragged.
attention_sm90::Problem local_attention(AttentionProblem const& problem, int const* offsets);
long long first_key(AttentionProblem const& problem);    ///< element where k begins
long long first_value(AttentionProblem const& problem);  ///< element where v begins

/// Of a layer's weights [heads, then key heads, then value heads][head_size] the rows that a rank's w_in has,
/// in its order.
std::vector<int> rows_of_rank(AttentionProblem const& problem, int rank);

}  // namespace tessera::gemm_collectives
