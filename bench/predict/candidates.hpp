// SPDX-License-Identifier: Apache-2.0
// The pairs of GEMMs of the records of measured pairs, as plans that the simulator runs.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tessera/describe/workload.hpp"
#include "tessera/measure/machine_profile.hpp"
#include "tessera/plan/plan.hpp"

namespace tessera::bench {

struct MlpShape {
  std::int64_t model = 0, hidden = 0, tokens = 0;
  bool swiglu = false;
};

/// How one of the two GEMMs runs; the fields mean what they mean in kernels/gemm_sm90.
struct HalfChoice {
  std::string kernel;  ///< "128x256x64_2x1"
  int band = 1;
  bool persistent = false;

  bool operator==(HalfChoice const&) const = default;
};

struct PairChoice {
  Mechanism mechanism = Mechanism::stream_order;
  HalfChoice first, second;
  int columns_per_semaphore = 1;  ///< pdl_tiles; 0: a row
  bool early_weights = false;
  bool chained = false;  ///< from one MLP to the next as from the first GEMM to the second
};

/// "tessera row | 128x256x64_2x1 columns persistent > ..., a row, early weights": as results/h200/mlp.json
/// names it.
std::string text(PairChoice const& choice);

/// The plan of a pair, of one GEMM alone.
Expected<Plan> plan_of(MlpShape const& shape, PairChoice const& choice, MachineProfile const& machine);
/// The machine as a pair meets it: behind another MLP that lets it start early if it is chained.
MachineProfile machine_for(PairChoice const& choice, MachineProfile const& machine);
Expected<Plan> plan_of(std::int64_t rows, std::int64_t columns, std::int64_t depth, HalfChoice const& half,
                       MachineProfile const& machine);

struct Priced {
  PairChoice choice;
  double us = 0;
};

/// Whether a kernel of the catalogue is compiled, with a gate or without.
using Runs = std::function<bool(std::string const& kernel, bool gated)>;

/// What simulation alone would run, best first: every kernel of the catalogue that `runs` (all where it is
/// empty), in both extreme orders and grids, alone first; then the best combinations under every mechanism.
/// Priced at one clock for all, that of the best pairs in turns: a tuning compares candidates in turns, and a
/// model runs an MLP in turns with everything else, so that a pair's own power hardly sets its own clock.
std::vector<Priced> ranked(MlpShape const& shape, MachineProfile const& machine, Runs const& runs = {});

}  // namespace tessera::bench
