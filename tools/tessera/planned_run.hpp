// SPDX-License-Identifier: Apache-2.0
// Plans that run: a plan's file goes to the program that launches kernels, and nothing else of it.
#pragma once

#include <string>

#include "gpu_files.hpp"
#include "session.hpp"

namespace tessera::cli {

/// A file that says that it is a plan.
bool is_plan(std::string const& path);

/// tessera-gpu's exit code for this plan.
int run_plan(Session const& session, std::string const& path, GpuArguments const& arguments);

/// Plans each size with the compiled kernels, priced by the simulator, and runs the plans. The first exit
/// code that is worse than "wrong" ends it.
int run_planned(Session const& session, GpuArguments const& arguments, std::string const& machine);

}  // namespace tessera::cli
