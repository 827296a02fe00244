// SPDX-License-Identifier: Apache-2.0
// What a product with its collective has: its products, its memory on each GPU, and what its ranks launch.
#pragma once

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <tessera/communicate/transfers.hpp>

#include "fused.hpp"
#include "gemm_collective.hpp"
#include "piece.hpp"
#include "refused.hpp"
#include "schedule.hpp"
#include "src/gpu/check.hpp"
#include "src/gpu/event_timer.hpp"
#include "src/gpu/nccl.hpp"
#include "src/gpu/select.hpp"
#include "src/gpu/stream.hpp"
#include "src/gpu/told_flag.hpp"

namespace tessera::gemm_collectives {

using gpu::ok;
using gpu::Select;
using kernels::refusal;

constexpr std::size_t k_element = 2;  // bytes

inline void* at(void* memory, std::size_t bytes) { return static_cast<char*>(memory) + bytes; }
inline void const* at(void const* memory, std::size_t bytes) {
  return static_cast<char const*>(memory) + bytes;
}

struct GemmCollective::State {
  std::shared_ptr<PeerGroup> group;
  Problem problem;
  Way way = Way::sequential;
  double deadline_s = 2;
  gpu::Nccl const* nccl = nullptr;
  std::map<int, Piece> pieces;  ///< by rows
  std::map<int, Piece> adding;  ///< those that add what a peer has sent
  int parts = 1;                ///< products of the own rows, where they add
  /// [control][packets, or slots]: what peers write to.
  std::optional<PeerMemory> shared;
  /// [record][workspace][partial sums, or what is sent].
  std::optional<PeerMemory> own;
  std::size_t shared_at = 0, workspace_at = 0, partial_at = 0, send_at = 0;

  struct Rank {
    std::unique_ptr<gpu::Stream> side;
    std::unique_ptr<gpu::Edge> fork, join;
    std::unique_ptr<gpu::Edge>
        before_library;  ///< behind which the last call of NCCL is, but for captured ones
    std::unique_ptr<gpu::ToldFlag> told;
    std::vector<Step> steps;  ///< of a launch, but for Way::sequential
  };
  std::vector<Rank> ranks;
  /// A call has failed when a part of it was enqueued: ranks may have counted differently.
  std::atomic<bool> broken{false};

  State() = default;
  State(State const&) = delete;
  State& operator=(State const&) = delete;
  /// Kernels in flight may still raise a flag, and write.
  ~State() {
    if (group) (void)wait();
  }

  int count() const { return problem.ranks; }
  RowRange shard(int rank) const { return shard_of(problem.rows, problem.ranks, rank); }
  std::size_t slot_bytes() const { return k_element * static_cast<std::size_t>(slot_elements(problem)); }
  HalfType type() const { return problem.type == ElementType::bf16 ? HalfType::bf16 : HalfType::fp16; }
  std::size_t output_bytes(int rows) const {
    return k_element * static_cast<std::size_t>(rows) * static_cast<std::size_t>(problem.local_columns());
  }
  std::size_t input_bytes(int rows) const {
    return k_element * static_cast<std::size_t>(rows) * static_cast<std::size_t>(problem.local_depth());
  }
  /// The slot of what `source` sends, in a rank's memory.
  void* slot(int rank, int source) const {
    return at(shared->at(rank), shared_at + static_cast<std::size_t>(source) * slot_bytes());
  }
  void* partial(int rank) const { return at(own->at(rank), partial_at); }
  /// What is sent to a peer lies here first.
  void* sent(int rank, int peer) const {
    return at(own->at(rank), send_at + static_cast<std::size_t>(peer) * slot_bytes());
  }
  /// The other ranks store into a rank's result.
  bool by_peers() const {
    return problem.collective == Collective::all_reduce && way != Way::words && way != Way::fused &&
           way != Way::sequential;
  }
  StallRecord* record(int rank) const { return static_cast<StallRecord*>(own->at(rank)); }

  PeerOperation operation(int rank) const {
    PeerOperation result;
    for (int peer = 0; peer < count(); ++peer)
      result.control[peer] = static_cast<PeerControl*>(shared->at(peer));
    result.rank = rank;
    result.ranks = count();
    result.watch = {record(rank), static_cast<unsigned long long>(deadline_s * 1e9)};
    return result;
  }

  // Making: gemm_collective.cpp.
  Expected<void> take_way(Options const& options);
  /// What is asked for; untuned, what suits the way.
  PieceKernel kernel_of(Options const& options) const;
  /// What needs nobody else.
  Expected<void> make_own(PieceKernel const& kernel);
  /// The rest, if all ranks could make theirs. `mine`: whether this one could.
  Expected<void> make_with_others(Expected<void> const& mine);
  std::string name() const;

  // collective_memory.cpp.
  Expected<void> make_pieces(std::map<int, Piece>& to, std::vector<int> const& rows,
                             PieceKernel const& kernel) const;
  Expected<void> make_pieces(PieceKernel const& kernel);
  /// What peers write to; a call of all ranks.
  Expected<void> make_shared_memory();
  Expected<void> make_own_memory();
  void make_ranks();
  /// The records, empty, with the words that they raise.
  void arm() const;
  /// Runs products once, of zeros, whose kernels are loaded by their first launch: a kernel that is first
  /// loaded behind one that spins would never start. Each kernel on each device once for the process.
  Expected<void> warm_up();

  // Stalls and what is given: collective_stalls.cpp.
  bool stalled() const;
  /// For the GPUs of this process. A library's kernels wait for a lost rank without end: they are ended here.
  Expected<void> wait() const;
  /// What the ranks of this process have waited for in vain, which is said once: begin_anew() follows.
  Diagnostics stalls();
  /// Waits for all ranks, says what happened, and begins anew.
  Expected<void> recover();
  Expected<void> recover_with_others(Diagnostics found);
  Expected<void> begin_anew();
  /// E0582 where a launch has stalled and nobody has heard of it, or a call has failed halfway.
  /// E0520, once, where something else that this thread has launched has stalled.
  Expected<void> nothing_else_stalled(std::vector<cudaStream_t> const& streams) const;
  Expected<void> go_on() const;
  Expected<void> recover_first(std::vector<cudaStream_t> const& streams);
  /// E0581 for memory that is missing, not 16-byte aligned, or not where it should be.
  Expected<void> check(std::vector<Operands> const& operands) const;
  Expected<void> check(int rank, Operands const& operands) const;
  /// E0581 for one that is of another GPU, if it is not captured.
  Expected<void> check(int rank, cudaStream_t stream) const;

  // Launching: collective_ways.cpp.
  void product(int rank, int rows, PieceOperands const& operands, Step const& step, cudaStream_t stream);
  void multiply(int rank, Step const& step, std::vector<Operands> const& operands, cudaStream_t stream);
  void copy(int rank, Step const& step, std::vector<Operands> const& operands, cudaStream_t stream) const;
  void sum_of_words(int rank, Operands const& mine, cudaStream_t stream) const;
  void fused(int rank, Operands const& mine, cudaStream_t stream) const;
  void sum_of_shard(int rank, std::vector<Operands> const& operands, cudaStream_t stream) const;
  void launch(int rank, Step const& step, std::vector<Operands> const& operands, cudaStream_t main);
  // By a library: what comes before NCCL's call, the call, and what comes behind it.
  void before_library(int rank, Operands const& mine, cudaStream_t stream);
  void call_library(int rank, Operands const& mine, cudaStream_t stream) const;
  void after_library(int rank, Operands const& mine, cudaStream_t stream);
  void enqueue(int rank, std::vector<Operands> const& operands, cudaStream_t stream);
  void enqueue_all(std::vector<Operands> const& operands, std::vector<cudaStream_t> const& streams);
  /// What `act` throws leaves some ranks a launch behind.
  template <class Act>
  void unbroken(Act const& act) {
    try {
      act();
    } catch (...) {
      broken = true;
      // A kernel that was not launched is no error of the next one.
      (void)cudaGetLastError();
      throw;
    }
  }
  /// Makes what operands need when they are new, of all ranks before one of them waits for another: to
  /// allocate memory may take until a GPU is idle.
  void prepare(std::vector<Operands> const& operands);
};

}  // namespace tessera::gemm_collectives
