// SPDX-License-Identifier: Apache-2.0
// The command line as a function, for the executable and for the Python package.
#pragma once

#include <string>

namespace tessera::cli {

/// Runs `words` (the program's name first) and returns the exit code. `folder` holds the programs that launch
/// kernels. Data goes to standard output, everything else to standard error. From here on INT, TERM and HUP
/// remove half-written files and end the process.
int run_program(int count, char** words, std::string const& folder);

}  // namespace tessera::cli
