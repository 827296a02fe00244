// SPDX-License-Identifier: Apache-2.0
// run lattice-boltzmann --predict: what steps of a box would take in each variant, simulated without a GPU.
#pragma once

#include <optional>
#include <string>

#include "kernels/lattice_boltzmann/step_plan.hpp"
#include "session.hpp"
#include "tessera/measure/machine_profile.hpp"

namespace tessera::cli {

/// What is asked for. `output`: also written there, as JSON; may be empty.
struct FlowPrediction {
  lattice_boltzmann::Problem box;
  std::optional<lattice_boltzmann::Variant> variant;  ///< none: all
  int gpus = 1;                                       ///< more: slabs on so many beside the variants of one
  std::string output;
};

/// E0303 for machines that the kernels are not for, or that were not measured: with one GPU, or with a second
/// one where several are asked for.
int predict_flow(Session const& session, FlowPrediction const& asked, MachineProfile const& machine);

}  // namespace tessera::cli
