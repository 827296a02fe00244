// SPDX-License-Identifier: Apache-2.0
// Each adds one subcommand to the program and leaves behind what to do when it is the one called.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "load.hpp"
#include "session.hpp"

namespace tessera::cli {

/// Runs the subcommand that was parsed; returns the exit code.
using Action = std::function<int()>;

void add_plan(CLI::App& app, Session const& session, Action& action);
void add_check(CLI::App& app, Session const& session, Action& action);
void add_simulate(CLI::App& app, Session const& session, Action& action);
void add_generate(CLI::App& app, Session const& session, Action& action);
void add_explain(CLI::App& app, Session const& session, Action& action);
void add_why_not(CLI::App& app, Session const& session, Action& action);
void add_sweep(CLI::App& app, Session const& session, Action& action);
void add_diff(CLI::App& app, Session const& session, Action& action);
void add_tune(CLI::App& app, Session const& session, Action& action);
void add_run(CLI::App& app, Session const& session, Action& action);
void add_probe(CLI::App& app, Session const& session, Action& action);
void add_bench(CLI::App& app, Session const& session, Action& action);
void add_doctor(CLI::App& app, Session const& session, Action& action);
void add_workloads(CLI::App& app, Session const& session, Action& action);
void add_machines(CLI::App& app, Session const& session, Action& action);

/// The workload argument and the options for its sizes.
void add_workload_options(CLI::App& command, WorkloadOptions& options);

}  // namespace tessera::cli
