// SPDX-License-Identifier: Apache-2.0
// Loops with roles of tessera simulate --roles.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "session.hpp"

namespace tessera::cli {

struct RolesArguments {
  std::string file;
  std::string machine;  ///< empty: h200
  std::int64_t iterations = 1;
  std::vector<std::string> figures;  ///< "turn_ns=100"
  std::string output, csv, html;
};

int run_roles(Session const& session, RolesArguments const& arguments);

}  // namespace tessera::cli
