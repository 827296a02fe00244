// SPDX-License-Identifier: Apache-2.0
// "machine_values" of a plan: what it was proved and priced with.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "json/reader.hpp"
#include "tessera/measure/machine_profile.hpp"

namespace tessera::json {

/// Reports E0265 where the hash is not that of the values, or the values contradict each other.
MachineProfile read_machine_values(Document& document, Node const& node, std::string const& machine);

nlohmann::ordered_json print_machine_values(MachineProfile const& values);

}  // namespace tessera::json
