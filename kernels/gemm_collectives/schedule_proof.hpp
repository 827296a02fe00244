// SPDX-License-Identifier: Apache-2.0
// Why a schedule over GPUs gets to its end and computes what its description says: by counting, without a
// GPU.
#pragma once

#include <string>
#include <tessera/diagnostic.hpp>

#include "kernels/gemm_collectives/schedule.hpp"

namespace tessera::gemm_collectives {

/// What is taken away, or changed, to see what it is for.
struct ProofOptions {
  int launches = 3;  ///< one behind another; what the first one leaves the third one finds
  bool kept_apart =
      true;  ///< a launch begins when the one before has ended on its GPU (src/gpu/peer_order.hpp)
  int sms = 132;
  /// Steps of a rank; none: steps_of().
  std::vector<std::vector<Step>> steps{};
};

struct ScheduleProof {
  int events = 0;             ///< begins and ends of what is launched, of all ranks and launches
  long long dependences = 0;  ///< pairs of tiles of the description that the schedule keeps in order
  int waits = 0;              ///< kernels that wait for a peer
  int beside_waits = 0;       ///< kernels that may have to begin while others of their GPU wait
  int held_sms = 0;           ///< at most, by those
  std::string text;           ///< all of that
};

/// Shows for all ranks together that
///  - what is launched waits for nothing that waits for it: streams, events and words of peers go in no
///    circle, over launches;
///  - a kernel that has to begin finds an SM beside all kernels that may wait on its GPU at that time;
///  - each tile of describe() begins behind those that it reads, or that are still to be read before it
///    overwrites them, on whatever ranks they are.
/// E0302 with the first that does not hold; what describe() refuses. Between ranks words alone order
/// anything: nothing is said of how fast they are.
Expected<ScheduleProof> prove(Problem const& problem, Way way, int parts = 1,
                              ProofOptions const& options = {});

}  // namespace tessera::gemm_collectives
