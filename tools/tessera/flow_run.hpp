// SPDX-License-Identifier: Apache-2.0
// run lattice-boltzmann: steps of a flow. Everything that can be known without a GPU is refused here; the
// steps are tessera-flow's.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "kernels/lattice_boltzmann/step_plan.hpp"
#include "session.hpp"

namespace tessera::cli {

/// What `tessera run` takes in place of a workload's name.
constexpr char const* k_flow_name = "lattice-boltzmann";

struct FlowArguments {
  std::optional<std::string> box, flow, variant;
  std::optional<long long> steps;
  std::optional<double> tau, speed;
  std::optional<int> gpus;  ///< --gpus, which products on several GPUs have, too
  std::string vtk;
  /// --predict, --machine and --output, which others have, too.
  bool predict = false;
  std::string machine, output;
};

/// "128x128x128", the rest as a Problem has it. E0908.
Expected<lattice_boltzmann::Problem> box_of(std::string const& text);
/// E0908 for a name that no variant has.
Expected<lattice_boltzmann::Variant> flow_variant(std::string const& name);

void add_flow_options(CLI::App& command, FlowArguments& arguments);

/// E0906 for each of these that is given for another workload.
Diagnostics unused_without_flow(FlowArguments const& arguments);

int run_flow(Session const& session, FlowArguments const& arguments);

}  // namespace tessera::cli
