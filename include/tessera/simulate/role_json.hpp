// SPDX-License-Identifier: Apache-2.0
// A loop with roles as a file, schema "tessera.roles/1": what `tessera simulate --roles` reads. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "role_loop.hpp"

namespace tessera {

/// All of a RoleLoop but its plan, which depends on the machine, and its iterations.
struct RoleFile {
  Loop loop;
  std::vector<std::string> tokens;  ///< buffers whose words carry the iteration (plan_loop())
  int workers = 0;                  ///< 0: one for each SM
  std::vector<RoleWork> work;       ///< of each stage of the body
  RoleRingSizes rings;
  std::vector<long long> tile_bytes = {};  ///< of RoleLoop
};

/// Diagnostics name file and line: E0201 to E0205 as of a workload. simulate_roles() checks the numbers.
Expected<RoleFile> parse_roles(std::string_view json, std::string const& file);

/// The inverse, but for source lines.
std::string print_roles(RoleFile const& roles);

/// Planned on a machine. Refuses as plan_loop().
Expected<RoleLoop> plan_roles(RoleFile const& file, MachineProfile const& machine, long long iterations);

}  // namespace tessera
