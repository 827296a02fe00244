// SPDX-License-Identifier: Apache-2.0
// What tessera-gpu is asked to do. `tessera` writes this command line; a person uses that tool instead.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tessera/describe/workload.hpp>
#include <tessera/diagnostic.hpp>
#include <tessera/measure/machine_profile.hpp>
#include <tessera/plan/plan.hpp>
#include <tessera/tune/choose.hpp>
#include <vector>

namespace tessera::command {

struct Arguments {
  std::string verb;                   ///< one of those that the program knows
  std::vector<std::string> files;     ///< workloads; run: plans too
  std::string name;                   ///< for tables
  std::string cache;                  ///< empty: the default; bench: none
  std::string output;                 ///< bench: the record's values as JSON; empty: none
  std::string timeline;               ///< run: the measured timeline as JSON; empty: none
  std::string html;                   ///< run: a report page; empty: none
  std::vector<std::int64_t> prompts;  ///< run: of a plan, tokens of each prompt of unequal length
  Load load = Load::any;
  bool quick = false;
  bool verbose = false;  ///< a line on standard error before each try
};

/// <verb> FILE... [--name N] [--cache F] [--for any|steady|bursts] [--output F] [--timeline F] [--html F]
/// [--prompts L,L,...] [--quick] [--verbose]. E0908.
Expected<Arguments> read_arguments(std::vector<std::string> const& words,
                                   std::vector<std::string> const& verbs);

/// E0933 where there is no GPU that can run the kernels.
Expected<void> needs_hopper();

/// Each returns an exit code of `tessera`.
int tune(Arguments const& arguments);
int run(Arguments const& arguments);

/// Runs a plan of registered kernels on random operands, and prints for each stage how it compares with plain
/// arithmetic: of a launch, and of the last of some replays of a graph. Whether all are right. `prompts`: of
/// unequal length, which a plan does not say.
Expected<bool> run_plan(Plan const& plan, std::vector<std::int64_t> const& prompts, int replays);

/// The paper's attention as separate kernels: in stream order, with StridedSync where queries, keys and
/// values lie at a stride, and as planned. Prints for each how its stages compare with plain arithmetic, and
/// its time. Whether all are right.
Expected<bool> run_unfused(OperatorGraph const& graph, int replays);

/// Runs the plan once more, with events around its launches, and writes what is asked for: the timeline by
/// launch as JSON, and a page that shows it beside the simulated one. Prints both totals. E0902.
Expected<void> write_timeline(Plan const& plan, std::vector<std::int64_t> const& prompts,
                              std::string const& json_path, std::string const& html_path);

/// Whether every kernel of the plan can be bound and launched here.
bool can_launch(Plan const& plan, std::vector<std::int64_t> const& prompts);

/// E0901.
Expected<std::string> read_file(std::string const& path);
/// Operators; E0906 for a pipeline whose tiles are given, which has no registered kernels.
Expected<OperatorGraph> read_operators(std::string const& path);

/// The current device by the shipped profile of its name, or by that of the H200, with what it can hold.
Expected<MachineProfile> machine_here();

/// On standard error. Returns the exit code that `tessera` would give.
int fail(Diagnostics const& reasons);

/// Shows on standard error what is tried: with the time of day before it and its time after it if `verbose`,
/// else redrawn where that is a terminal. "" wipes it.
void show_progress(std::string const& name, std::optional<double> us, bool verbose);

/// Names of kernels without the bits that only cuBLASLt reads.
std::string shown(std::string name);
/// "768" for 768 rows of the first operator.
std::string size_text(OperatorGraph const& graph);

/// Operations a second of the fastest bf16 product seen on an H200.
constexpr double peak_flops = 790e12;

constexpr int ok = 0, answer_is_no = 1, usage = 2, environment = 3;

}  // namespace tessera::command
