// SPDX-License-Identifier: Apache-2.0
// CUTLASS without Tessera, as candidates for an MLP.
#pragma once

#include <string>
#include <vector>

#include "kernels/mlp/candidate.hpp"
#include "kernels/mlp/measure/arena.hpp"
#include "kernels/mlp/measure/screen.hpp"
#include "src/bench/timer.hpp"

namespace tessera::bench {

/// One thing to measure, and as what it is reported.
struct Contender {
  std::string
      group;  ///< "cuBLASLt", "CUTLASS", "CUTLASS + PDL", "CUTLASS Stream-K", "Tessera", "Tessera pdl", ...
  bool tessera = false;
  mlp::Candidate candidate;
};

/// The three best pairs of each way to run CUTLASS's kernels, found by trying: every shape, order and grid
/// alone, then pairs of the fastest. SwiGLU is a GEMM of twice the columns and an element-wise kernel.
std::vector<Contender> peer_candidates(mlp::Arena& arena, Timer& timer, mlp::Shape const& shape,
                                       mlp::Progress const& progress);

}  // namespace tessera::bench
