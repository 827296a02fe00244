// SPDX-License-Identifier: Apache-2.0
// The attention block of a tensor-parallel layer: a product that gives each rank the queries, keys and values
// of its heads, these turned by their positions, attention of prompts, and a product whose sums the ranks
// share, with the collectives of both overlapped.
//
//   AttentionProblem const layer{2048, 8192, 64, 8};  // tokens, columns, heads, key heads
//   tensor_parallel_attention(group, layer, {{x0, w_in0, w_out0, y0, turns0}, …}, streams);
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/gemm_collectives/parallel_attention_problem.hpp"
#include "kernels/gemm_collectives/product_pair.hpp"

namespace tessera::gemm_collectives {

/// `first`: of whole tokens the kernel counts.
using AttentionOptions = PairOptions;

/// Of one rank, in its GPU's memory, as this process sees it; matrices as AttentionProblem says, 16-byte
/// aligned. Of whole tokens the peers may store into `y`. Of another process's rank only `y` counts. The last
/// three are read when the launch runs, for all tokens, by every rank.
struct AttentionOperands {
  void const* x = nullptr;
  void const* w_in = nullptr;
  void const* w_out = nullptr;
  void* y = nullptr;
  /// [position][head_size / 2]: cosine and sine, for every position that there is. With Turning::none unused.
  float2 const* turns = nullptr;
  /// [tokens]: where each token stands in its sequence. Null: sequences of one length, which begin at 0; not
  /// null where they are ragged and turned.
  int const* positions = nullptr;
  /// [sequences + 1], where ragged: the first token of each sequence, and where the last one ends. The first
  /// is 0 and the last `tokens`: y of a token of no sequence means nothing.
  int const* offsets = nullptr;
};

class TensorParallelAttention {
 public:
  /// `ranks` is the group's. E0581 and E0590 for sizes that cannot be, else errors as GemmCollective::make()
  /// has; of several processes a call of all ranks. Holds, beside what its products do, what is between them:
  /// tokens times local_columns(), and local_heads() times head_size.
  static Expected<TensorParallelAttention> make(std::shared_ptr<PeerGroup> group, AttentionProblem problem,
                                                AttentionOptions const& options = {});

  /// Enqueues the parts of all ranks of this process, as GemmCollective::run() does. May be captured. E0581
  /// for operands that are missing, not aligned, or in other memory.
  Expected<void> run(std::vector<AttentionOperands> const& operands,
                     std::vector<cudaStream_t> const& streams);
  /// Waits for the group's GPUs: GemmCollective::finish() of both products.
  Expected<void> finish();
  /// As GemmCollective's.
  Expected<void> finish_own();
  Expected<void> hear_of_others() const;

  AttentionProblem const& problem() const;
  /// Of both products: "copy, cublaslt(...); add, cublaslt(...), parts: 2".
  std::string name() const;

 private:
  TensorParallelAttention(std::shared_ptr<PeerGroup> group, AttentionProblem const& problem, ProductPair pair)
      : group_(std::move(group)), problem_(problem), pair_(std::move(pair)) {}
  Expected<void> check(std::vector<AttentionOperands> const& operands) const;

  std::shared_ptr<PeerGroup> group_;
  AttentionProblem problem_;
  ProductPair pair_;
};

}  // namespace tessera::gemm_collectives
