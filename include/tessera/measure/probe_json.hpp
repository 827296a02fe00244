// SPDX-License-Identifier: Apache-2.0
// What a probe found as JSON: a file of its own ("tessera.probe/1"), or the "probe" of a machine profile.
#pragma once

#include <string>
#include <string_view>

#include "../diagnostic.hpp"
#include "probe.hpp"

namespace tessera {

/// Takes either kind of file, and a record of scripts/gpu_check whose values are a probe. E0601 and E0603 to
/// E0607 as for machine profiles; E0608 for a profile that has no probe.
Expected<Probe> parse_probe(std::string_view json, std::string const& file);
std::string print_probe(Probe const& probe);

}  // namespace tessera
