// SPDX-License-Identifier: Apache-2.0
// What overlapping two GEMMs is worth when nothing else differs: both in the same tiles, which may fit the
// size badly.
#pragma once

#include <vector>

#include "peer_candidates.hpp"

namespace tessera::bench {

/// For 128x256 and 128x192 tiles, the fastest in stream order, with PDL, and with semaphores, each over
/// orders of tiles and grids: groups "128x256 stream", "128x256 pdl", "128x256 semaphores", ... Stream order
/// is Tessera's kernels without waits; CUTLASS's own are among the peers. bf16, more than 128 tokens.
std::vector<Contender> same_tiles(mlp::Arena& arena, Timer& timer, mlp::Shape const& shape,
                                  mlp::Progress const& progress);

}  // namespace tessera::bench
