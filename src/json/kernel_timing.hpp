// SPDX-License-Identifier: Apache-2.0
// How long a kernel takes, as machine profiles and plans write it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "json/reader.hpp"
#include "tessera/measure/machine_profile.hpp"

namespace tessera::json {

/// The numbers of an entry; its name and its source are the caller's.
KernelTiming read_timing(ObjectReader& reader);

nlohmann::ordered_json print_timing(std::string const& name, KernelTiming const& timing);

}  // namespace tessera::json
