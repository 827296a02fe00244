// SPDX-License-Identifier: Apache-2.0
// The product and the collective alone, of which the longer is what a perfect overlap would take.
#pragma once

#include <deque>

#include "kernels/gemm_collectives/gang.hpp"
#include "kernels/gemm_collectives/tune.hpp"
#include "src/gpu/event_timer.hpp"
#include "src/gpu/stream.hpp"

namespace tessera::gemm_collectives {

/// Of all ranks of one process. Throws where CUDA fails.
class Alone {
 public:
  /// `kernel` computes the product; `operands` outlive it.
  Alone(std::shared_ptr<PeerGroup> const& group, Problem const& problem, OperandRing const& operands,
        PieceKernel const& kernel);

  /// "gemm", "nccl" where NCCL is, and, where GPUs reach each other, "gemm beside copies": the product while
  /// a copy engine sends what has to cross the link (wire_bytes()), which says what the product itself loses.
  std::deque<GangTimed>& timed() { return timed_; }

 private:
  Expected<void> product(std::vector<cudaStream_t> const& streams, int set);
  Expected<void> product_beside_copies(std::vector<cudaStream_t> const& streams, int set);
  Expected<void> collective(gpu::Nccl const& nccl, std::vector<cudaStream_t> const& streams);

  std::shared_ptr<PeerGroup> group_;
  Problem problem_;
  OperandRing const& operands_;
  std::vector<Piece> pieces_;
  std::deque<PeerMemory> scratch_;  ///< workspace, and two that are as large as the collective needs
  struct Side {
    gpu::Stream stream;
    gpu::Edge fork, join;
  };
  std::deque<Side> sides_;  ///< of each rank
  std::deque<GangTimed> timed_;
};

}  // namespace tessera::gemm_collectives
