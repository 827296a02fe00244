// SPDX-License-Identifier: Apache-2.0
// The pairs of GEMMs of the records of measured pairs, as recipes of the planner.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "tessera/describe/workload.hpp"
#include "tessera/measure/machine_profile.hpp"
#include "tessera/plan/build.hpp"

namespace tessera::bench {

struct MlpShape {
  std::int64_t model = 0, hidden = 0, tokens = 0;
  bool swiglu = false;
};
OperatorGraph mlp_graph(MlpShape const& shape);

/// One GEMM as records name it: "128x256x64_2x1 0 1" is the kernel, the rows of its bands (0: all) and
/// whether its grid is persistent.
struct Half {
  std::string kernel;
  int band = 1;
  bool persistent = false;
};
std::istream& operator>>(std::istream& in, Half& half);

/// "<stream|pdl|tiles> <half> <half> <columns of tiles per semaphore, 0: a row> <early weights> <chained>".
struct Pair {
  Mechanism mechanism = Mechanism::stream_order;
  Half first, second;
  int columns_per_semaphore = 1;
  bool early_weights = false;
  bool chained = false;
};
std::istream& operator>>(std::istream& in, Pair& pair);

/// A plan of two kernels of gemm_sm90 in the same words, or "none".
std::string words_of(Plan const& plan);

/// The planner's plan of a recorded pair, of one GEMM alone. E0305 for a kernel that the catalogue lacks.
Expected<Plan> plan_of(MlpShape const& shape, Pair const& pair, MachineProfile const& machine);
Expected<Plan> plan_of(std::int64_t rows, std::int64_t columns, std::int64_t depth, Half const& half,
                       MachineProfile const& machine);

}  // namespace tessera::bench
