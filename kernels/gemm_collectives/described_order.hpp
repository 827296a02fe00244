// SPDX-License-Identifier: Apache-2.0
// Does a schedule keep the dependences of its description?
#pragma once

#include <string>
#include <tessera/describe/loop.hpp>

#include "kernels/gemm_collectives/schedule_events.hpp"

namespace tessera::gemm_collectives {

struct KeptDependences {
  long long pairs = 0;
  std::string broken;  ///< "sum(1, 0, 0) of launch 1 reads what send(0, 1, 0) of launch 1 ...", or nothing
};

/// `loop`: of describe(). Stages that are words between ranks and launches say only what has to be behind
/// what, and have no step of their own.
KeptDependences dependences_kept(Loop const& loop, Problem const& problem, Events const& events);

}  // namespace tessera::gemm_collectives
