// SPDX-License-Identifier: Apache-2.0
// From what a probe found to what the planner reads.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "machine_profile.hpp"

namespace tessera {

/// The first figure of that id that was measured under all of these conditions; null if there is none.
Figure const* find_figure(Probe const& probe, std::string_view id,
                          std::map<std::string, double> const& at = {});

/// `base` with the fields that mean the same as a figure of the probe set to it, each with a source that
/// names the figure, and with the probe itself. What the probe did not measure, and what the base took from
/// kernels as they are compiled (block_start_ns, the clock under load, power), stays. No longer provisional
/// if not_measured() is empty.
MachineProfile with_measured(MachineProfile base, Probe const& probe);

/// Fields that with_measured() would set if the probe had their figures: "post_ns: pair.post".
std::vector<std::string> not_measured(Probe const& probe);

}  // namespace tessera
