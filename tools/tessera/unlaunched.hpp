// SPDX-License-Identifier: Apache-2.0
// Attention that can be planned and that no run launches.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "load.hpp"

namespace tessera::cli {

/// What no plan launches this attention with, and what else there is: "no plan launches ... with <what>".
struct Unlaunched {
  std::string what, way_out;
};
/// Nothing: a plan of it is launched. `op` is an attention in one kernel.
std::optional<Unlaunched> unlaunched(OperatorGraph const& graph, Operator const& op);

/// A line that says so of the first workload with such an attention; empty: there is none.
std::string unlaunched_note(std::vector<SizedWorkload> const& workloads);

}  // namespace tessera::cli
