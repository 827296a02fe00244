// SPDX-License-Identifier: Apache-2.0
// A matrix product and its collective on the GPUs of a host, overlapped.
//
//   auto group = PeerGroup::make({0, 1});
//   auto product = GemmCollective::make(*group, {Collective::all_reduce, 8, 8192, 8192});
//   product->run({{a0, b0, d0}, {a1, b1, d1}}, {stream0, stream1});
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>
#include <tessera/communicate/peer_group.hpp>
#include <tessera/diagnostic.hpp>
#include <vector>

#include "kernels/gemm_collectives/piece.hpp"
#include "kernels/gemm_collectives/problem.hpp"

namespace tessera::gemm_collectives {

struct Options {
  Way way = Way::automatic;
  PieceKernel kernel;           ///< of every piece
  int parts = 0;                ///< of a shard, for Way::add; 0: as the library chooses
  double deadline_seconds = 2;  ///< of every wait for a peer; NCCL has none
};

/// Of one rank, in its GPU's memory, as this process sees it; Problem says their sizes. 16-byte aligned, rows
/// without gaps. Of an all-reduce the peers store into `d`, but for words, fused and sequential: memory of
/// cudaMalloc(), or of a pool or of cuMemMap() that the other GPUs were given access to. A kernel may read
/// `b` before the work in front of the call is complete: what writes `b` has ended when the call is made.
struct Operands {
  void const* a = nullptr;
  void const* b = nullptr;
  void* d = nullptr;
};

class GemmCollective {
 public:
  /// Problem::ranks is the group's. Of several processes a call of all ranks. E0581 for sizes or a way that
  /// cannot be, E0580 for a way that needs GPUs that reach each other where they do not (Way::automatic is
  /// Way::sequential there), E0583 where NCCL is needed and is not there, E0533, E0511, E0586.
  static Expected<GemmCollective> make(std::shared_ptr<PeerGroup> group, Problem problem,
                                       Options const& options = {});

  /// Enqueues one rank's part, behind all that the group's products have enqueued for this rank, on whatever
  /// streams (PeerGroup). Every rank makes the same calls, of all products of the group, in the same order.
  /// `operands`: of all ranks; of another process's only `d`, and that only where peers store into it: all
  /// ranks' `d` are of one PeerMemory then. May be captured, and the graph replayed, where every rank replays
  /// as often and no other work of the group runs beside it. Refuses (E0582), and enqueues nothing, where a
  /// launch before has stalled or failed halfway, until finish() was called. E0581 for operands that are
  /// missing, not aligned, or in other memory. Ranks by one thread: with Way::sequential, which
  /// the automatic one may be, take run().
  Expected<void> enqueue(int rank, std::vector<Operands> const& operands, cudaStream_t stream);
  /// The parts of all ranks of this process, each with its stream. Where a launch before has stalled it does
  /// what finish() does, and enqueues nothing; where one has failed halfway it lets all ranks begin anew. In
  /// a capture it only refuses, and in one of several processes.
  Expected<void> run(std::vector<Operands> const& operands, std::vector<cudaStream_t> const& streams);
  /// Waits for the group's GPUs, called once for all ranks while none enqueues. E0582 if a wait met its
  /// deadline: it names ranks, the part and the count; then, and where a call has failed halfway, all ranks
  /// begin anew. Of several processes a call of all ranks, which hear of all that went wrong on any.
  Expected<void> finish();
  /// Both halves of it, for who has several products: what has stalled here; and, when all have said that,
  /// once what else this thread has launched (E0520).
  Expected<void> finish_own();
  Expected<void> hear_of_others() const;
  /// Has a wait of any rank met its deadline since then? A load of host memory for each rank.
  bool stalled() const;

  Problem const& problem() const;
  Way way() const;
  /// "store, 128x256x64_2x1 band 8".
  std::string name() const;

 private:
  struct State;
  explicit GemmCollective(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

}  // namespace tessera::gemm_collectives
