// SPDX-License-Identifier: Apache-2.0
// What else there is for one new token behind cached ones.
#pragma once

#include <string>
#include <vector>

#include "load.hpp"

namespace tessera::cli {

/// Where one of the workloads is attention in one kernel with one new token of each sequence behind cached
/// ones: a line that names what generates whole tokens, or says that there is no kernel for these heads and
/// this type. Else empty. `machine` as --machine names it.
std::string generation_note(std::vector<SizedWorkload> const& workloads, WorkloadOptions const& options,
                            std::string const& machine = "h200");

}  // namespace tessera::cli
