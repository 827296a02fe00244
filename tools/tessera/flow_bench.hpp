// SPDX-License-Identifier: Apache-2.0
// bench lattice-boltzmann: boxes by variants, beside the roofline of the same run. The work is
// bench_lattice_boltzmann's.
#pragma once

#include <CLI/CLI.hpp>

#include "commands.hpp"

namespace tessera::cli {

void add_flow_bench(CLI::App& bench, Session const& session, Action& action);

}  // namespace tessera::cli
