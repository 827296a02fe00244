// SPDX-License-Identifier: Apache-2.0
// Work on several GPUs as a graph for each, begun together and timed in turns: a sample is the longest of the
// ranks.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>
#include <random>
#include <string>
#include <tessera/communicate/peer_group.hpp>
#include <tessera/sync/wait.cuh>
#include <vector>

namespace tessera::gemm_collectives {

/// Enqueues the parts of all ranks, each on its stream, for a set of operands.
using GangWork = std::function<Expected<void>(std::vector<cudaStream_t> const& streams, int set)>;

struct GangTimed {
  std::string name;
  GangWork work;
  std::vector<cudaGraphExec_t> graphs{};  ///< of each rank
  std::vector<double> us{};               ///< of one piece of work
  /// Pieces that one call of `work` enqueues, where a graph is one call.
  int pieces = 1;
  /// Of a sample that has ended, one piece: what is timed, where it is not the whole graph.
  std::function<double()> clock{};
};

/// Throws where CUDA fails, and what the work refuses.
class Gang {
 public:
  explicit Gang(std::shared_ptr<PeerGroup const> group);
  ~Gang();
  Gang(Gang const&) = delete;
  Gang& operator=(Gang const&) = delete;

  std::vector<cudaStream_t> const& streams() const { return streams_; }
  /// A graph of `calls` pieces of work on sets in turns, after each set once outside of a graph.
  void capture(GangTimed& timed, int calls, int sets);
  static void release(GangTimed& timed);
  /// So many samples of each, in an order that is drawn anew each round; each is run once before it is timed.
  void rounds(std::vector<GangTimed*> const& all, int count, int calls);

 private:
  struct Captured {
    std::vector<cudaGraph_t> graphs;  ///< of each rank, where there is no error
    cudaError_t error = cudaSuccess;  ///< the first one
  };
  /// All of them, also where one fails: a stream that is left capturing takes no other work.
  Captured end_captures() const;
  StallRecord* record(int rank) const;
  void finish() const;
  /// Throws where a gate has stalled: what was timed did not begin together. The next samples do.
  void check_gate() const;
  void launch(GangTimed const& timed) const;

  std::shared_ptr<PeerGroup const> group_;
  PeerMemory words_;  ///< of the gate: control words, and its record
  std::vector<cudaStream_t> streams_;
  std::vector<cudaEvent_t> begin_, end_;
  std::mt19937 random_{1};
};

}  // namespace tessera::gemm_collectives
