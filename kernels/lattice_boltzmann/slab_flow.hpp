// SPDX-License-Identifier: Apache-2.0
// A flow that the GPUs of a group share: slabs along z, a launch for each step on each of them, which puts
// what leaves its slab straight into its neighbours' memory and waits for theirs. Bits are those of one GPU.
//
//   auto group = PeerGroup::make({0, 1});
//   auto flow = SlabFlow::make(*group, {512, 512, 1024});
//   flow->run({stream0, stream1}, 1000);
//   flow->write(rank, stream, {density, {u, v, w}});   // of this rank's planes
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <tessera/communicate/peer_group.hpp>
#include <vector>

#include "kernels/lattice_boltzmann/in_memory.hpp"

namespace tessera::lattice_boltzmann {

/// For tests.
struct SlabDisturbance {
  unsigned late = 0;  ///< not 0: warps sleep up to 4 us now and then
  int silent_rank = -1;
  long long silent_from = 0;  ///< from this step on the rank tells its neighbours nothing
};

struct SlabOptions {
  double deadline_seconds = 2;  ///< of a wait for a neighbour
  SlabDisturbance disturbance = {};
};

class SlabFlow {
 public:
  /// Takes memory on every GPU and brings the fields of the start into it. Refuses what check_problem() does
  /// (E0568), more GPUs than planes and too little memory (E0569); E0511 where CUDA fails.
  static Expected<SlabFlow> make(std::shared_ptr<PeerGroup> group, Problem const& problem,
                                 SlabOptions const& options = {});

  /// Enqueues so many steps, of each rank on its stream. May be captured, of all ranks or of none, and then
  /// with the rules of Variant::two_lattices: even numbers behind even numbers. Ranks' graphs run together.
  /// Refuses (E0569) what is against that, another number of streams than GPUs, and a flow that is lost.
  Expected<void> run(std::vector<cudaStream_t> const& streams, long long steps);
  /// Enqueues that the flow in a rank's planes is written to fields in its memory, as `run()` captured.
  Expected<void> write(int rank, cudaStream_t stream, FlowFields const& fields);
  /// The flow is as at the start, when it returns. Not beside a capture.
  Expected<void> start_again();
  /// Waits for all GPUs. E0582 for a neighbour that did not come: the flow is lost, until start_again().
  Expected<void> finish();

  Problem const& problem() const;
  int ranks() const;
  /// Planes along z that a rank has.
  RowRange planes(int rank) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tessera::lattice_boltzmann
