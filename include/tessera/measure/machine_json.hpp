// SPDX-License-Identifier: Apache-2.0
// Machine profiles as JSON, schema machines/machine.schema.json: every value with unit and source.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "machine_profile.hpp"

namespace tessera {

/// True for names that a profile may have: not empty, without control characters.
bool is_machine_name(std::string_view name);

Expected<MachineProfile> parse_machine(std::string_view json, std::string const& file);
std::string print_machine(MachineProfile const& machine);

/// A shipped profile by name ("h200", "a100", "v100"); E0602 with the names there are.
Expected<MachineProfile> machine(std::string const& name);

}  // namespace tessera
