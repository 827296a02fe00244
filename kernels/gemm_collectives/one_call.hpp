// SPDX-License-Identifier: Apache-2.0
// One call for a product and its collective. What a call needs is kept for its sizes and streams.
#pragma once

#include "kernels/gemm_collectives/gemm_collective.hpp"

namespace tessera::gemm_collectives {

/// Sizes of the whole product, as Problem says; the collective and the ranks are the call's.
struct Sizes {
  int rows = 0;
  int columns = 0;
  int depth = 0;
  ElementType type = ElementType::bf16;
};

// They enqueue the parts of all ranks, on a stream each, and return. Errors as GemmCollective::make() and
// run() have; what a launch before has missed is said by the next call of the same sizes and streams, which
// enqueues nothing then, or by finish_all().

Expected<void> gemm_all_reduce(std::shared_ptr<PeerGroup> const& group, Sizes const& sizes,
                               std::vector<Operands> const& operands,
                               std::vector<cudaStream_t> const& streams);
Expected<void> gemm_reduce_scatter(std::shared_ptr<PeerGroup> const& group, Sizes const& sizes,
                                   std::vector<Operands> const& operands,
                                   std::vector<cudaStream_t> const& streams);
Expected<void> all_gather_gemm(std::shared_ptr<PeerGroup> const& group, Sizes const& sizes,
                               std::vector<Operands> const& operands,
                               std::vector<cudaStream_t> const& streams);

/// What calls of these sizes take from now on, as tune() found it. Waits for calls in flight, and says what
/// they have missed.
Expected<void> remember(std::shared_ptr<PeerGroup> const& group, Problem const& problem,
                        Options const& options);

/// Waits for the group's GPUs and says what calls above have missed. `release`: and forgets all that is kept
/// for the group.
Expected<void> finish_all(std::shared_ptr<PeerGroup> const& group, bool release = false);

}  // namespace tessera::gemm_collectives
