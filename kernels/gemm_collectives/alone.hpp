// SPDX-License-Identifier: Apache-2.0
// The product and the collective alone, of which the longer is what a perfect overlap would take.
#pragma once

#include <deque>

#include "kernels/gemm_collectives/gang.hpp"
#include "kernels/gemm_collectives/tune.hpp"
#include "src/gpu/event_timer.hpp"
#include "src/gpu/graph_timer.hpp"
#include "src/gpu/stream.hpp"

namespace tessera::gemm_collectives {

constexpr char const* k_beside_nothing = "gemm beside nothing";
constexpr char const* k_beside_copies = "gemm beside copies";

/// Of all ranks of one process. Throws where CUDA fails.
class Alone {
 public:
  /// `kernel` computes the product; `operands` outlive it. `calls`: in a graph.
  Alone(std::shared_ptr<PeerGroup> const& group, Problem const& problem, OperandRing const& operands,
        PieceKernel const& kernel, int calls);

  /// "gemm", "nccl" where NCCL is, and, where GPUs reach each other, two of which the second over the first
  /// says what the product itself loses: k_beside_nothing and k_beside_copies. Both are `calls` products
  /// behind each other, timed from the first one's begin to the last one's end by events in the graph, beside
  /// a second stream that forks in front of the first event and joins behind the second; on it a copy engine
  /// sends, for each product, one word, or what has to cross the link (wire_bytes()).
  std::deque<GangTimed>& timed() { return timed_; }

 private:
  Expected<void> product(std::vector<cudaStream_t> const& streams, int set);
  Expected<void> products_beside(std::size_t bytes, std::vector<cudaStream_t> const& streams);
  double products_us() const;
  Expected<void> collective(gpu::Nccl const& nccl, std::vector<cudaStream_t> const& streams);

  std::shared_ptr<PeerGroup> group_;
  Problem problem_;
  OperandRing const& operands_;
  int calls_ = 1;
  std::vector<Piece> pieces_;
  std::deque<PeerMemory> scratch_;  ///< workspace, and two that are as large as the collective needs
  struct Side {
    gpu::Stream stream;
    gpu::Edge fork, join;
    gpu::GraphTimer timer;
  };
  std::deque<Side> sides_;  ///< of each rank
  std::deque<GangTimed> timed_;
};

}  // namespace tessera::gemm_collectives
