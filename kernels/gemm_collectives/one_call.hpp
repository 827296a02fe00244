// SPDX-License-Identifier: Apache-2.0
// One call for a product and its collective. What calls of a group's sizes need is made by the first one and
// kept until finish_all(group, true), and again for each capture: memory for each of many sizes, as much as
// the operands and results that travel. Pad rows to a few sizes where memory counts.
#pragma once

#include <optional>

#include "kernels/gemm_collectives/gemm_collective.hpp"
#include "kernels/gemm_collectives/parallel_attention.hpp"
#include "kernels/gemm_collectives/parallel_mlp.hpp"

namespace tessera::gemm_collectives {

/// Sizes of the whole product, as Problem says; the collective and the ranks are the call's.
struct Sizes {
  int rows = 0;
  int columns = 0;
  int depth = 0;
  ElementType type = ElementType::bf16;
};

// They enqueue the parts of all ranks, on a stream each, and return. Errors as GemmCollective::make() and
// run() have; what a launch before has missed is said by the next call of the same sizes, which enqueues
// nothing then, or by finish_all(). In a capture: E0581 where no call of these sizes was made outside of one
// before. A capture has memory of its own, which a later one gets when its graphs are gone: destroy those of
// all ranks, and when none of them runs.

Expected<void> gemm_all_reduce(std::shared_ptr<PeerGroup> const& group, Sizes const& sizes,
                               std::vector<Operands> const& operands,
                               std::vector<cudaStream_t> const& streams);
Expected<void> gemm_reduce_scatter(std::shared_ptr<PeerGroup> const& group, Sizes const& sizes,
                                   std::vector<Operands> const& operands,
                                   std::vector<cudaStream_t> const& streams);
Expected<void> all_gather_gemm(std::shared_ptr<PeerGroup> const& group, Sizes const& sizes,
                               std::vector<Operands> const& operands,
                               std::vector<cudaStream_t> const& streams);

/// An MLP of a tensor-parallel layer. The products take what remember() has for them when the first call of
/// these sizes is made.
Expected<void> tensor_parallel_mlp(std::shared_ptr<PeerGroup> const& group, MlpProblem problem,
                                   std::vector<MlpOperands> const& operands,
                                   std::vector<cudaStream_t> const& streams);

/// The attention block of a tensor-parallel layer, likewise.
Expected<void> tensor_parallel_attention(std::shared_ptr<PeerGroup> const& group, AttentionProblem problem,
                                         std::vector<AttentionOperands> const& operands,
                                         std::vector<cudaStream_t> const& streams);

/// What calls of these sizes take from now on, as tune() found it. Waits for calls in flight, and says what
/// they have missed. Graphs keep what they were captured with.
Expected<void> remember(std::shared_ptr<PeerGroup> const& group, Problem const& problem,
                        Options const& options);
Expected<void> remember(std::shared_ptr<PeerGroup> const& group, MlpProblem const& problem,
                        MlpOptions const& options);
Expected<void> remember(std::shared_ptr<PeerGroup> const& group, AttentionProblem const& problem,
                        AttentionOptions const& options);
/// What was remembered for these sizes.
std::optional<Options> remembered(std::shared_ptr<PeerGroup> const& group, Problem const& problem);

/// Waits for the group's GPUs and says what calls above have missed. `release`: and forgets all that is kept
/// for the group; graphs of its calls are not to be launched any more.
Expected<void> finish_all(std::shared_ptr<PeerGroup> const& group, bool release = false);

}  // namespace tessera::gemm_collectives
