// SPDX-License-Identifier: Apache-2.0
// Blocks of kernels for prompts that are asked for one new token behind cached ones.
#pragma once

#include <string>
#include <vector>

#include "load.hpp"

namespace tessera::cli {

/// A line that names what generates tokens, where one of the workloads is attention in one kernel with one
/// new token of each sequence behind cached ones; else empty. `machine` as --machine names it.
std::string generation_note(std::vector<SizedWorkload> const& workloads, WorkloadOptions const& options,
                            std::string const& machine = "h200");

}  // namespace tessera::cli
