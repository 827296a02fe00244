// SPDX-License-Identifier: Apache-2.0
// What all options have in common about their values.
#pragma once

#include <CLI/CLI.hpp>

namespace tessera::cli {

/// E0908 for an empty value of any option or argument of any command: a variable of the shell that is not
/// set is no wish. Numbers are decimal digits everywhere, where CLI11 would also take 0x10 and read 010 as 8.
/// To be called when all options are there.
void check_option_values(CLI::App& app);

}  // namespace tessera::cli
