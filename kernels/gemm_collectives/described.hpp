// SPDX-License-Identifier: Apache-2.0
// A way of a product with its collective as a loop over its launches, whose stages have ranks for dimensions
// and whose transfers are stages, too: for check(), which sees whether everything that is read was sent, by
// every rank to every rank, and whether what a peer still reads is overwritten.
#pragma once

#include <tessera/describe/loop.hpp>
#include <tessera/diagnostic.hpp>

#include "kernels/gemm_collectives/problem.hpp"

namespace tessera::gemm_collectives {

/// What keeps one launch behind another; each is there unless it is taken away, to see what it is for.
struct LaunchOrder {
  bool peers = true;      ///< a rank sends when its peer has read what the launch before sent: begun, done
  bool stream = true;     ///< on a rank a launch begins when the one before has ended
  int packet_copies = 2;  ///< of words and fused, by turns
};

/// Tiles of waves.hpp, shards of equal size. Refuses as check_problem() does, and (E0581) Way::automatic and
/// Way::sequential, which others describe.
Expected<Loop> describe(Problem const& problem, Way way, LaunchOrder const& order = {});

}  // namespace tessera::gemm_collectives
