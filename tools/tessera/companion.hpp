// SPDX-License-Identifier: Apache-2.0
// Programs beside this one that launch kernels: tessera itself needs no CUDA.
#pragma once

#include <string>
#include <vector>

#include "session.hpp"

namespace tessera::cli {

/// Runs `<the session's folder>/<name>` with this program's input and output and returns its exit code.
/// With --json what it refuses is also printed as JSON. E0936 if there is none; `command` is what the user
/// asked for. INT, TERM and HUP go to that program, and end this one when that has ended.
int run_companion(Session const& session, std::string const& command, std::string const& name,
                  std::vector<std::string> const& arguments);

}  // namespace tessera::cli
