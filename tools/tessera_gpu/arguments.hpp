// SPDX-License-Identifier: Apache-2.0
// What tessera-gpu is asked to do. `tessera` writes this command line; a person uses that tool instead.
#pragma once

#include <optional>
#include <string>
#include <tessera/diagnostic.hpp>
#include <tessera/tune/choose.hpp>
#include <vector>

#include "kernels/common/mlp_problem.hpp"

namespace tessera::command {

struct Arguments {
  std::string verb;         ///< "tune", "check" or "bench"
  std::string name;         ///< of the model, for tables
  mlp::Shape shape;         ///< without tokens
  std::vector<int> tokens;  ///< ascending, each once
  std::string cache;        ///< empty: the default; bench: none
  std::string only;         ///< check: the candidate to take, whatever the cache says
  std::string output;       ///< bench: the record's values as JSON; empty: none
  Load load = Load::any;
  bool quick = false;
  bool verbose = false;  ///< a line on standard error before each try
};

/// tune|check|bench --name N --model M --hidden H --form gelu|swiglu --type bf16|fp16 --tokens 1,16
/// [--cache F] [--only CANDIDATE] [--for any|steady|bursts] [--output F] [--quick] [--verbose]. E0908.
Expected<Arguments> read_arguments(std::vector<std::string> const& words);

/// E0933 where there is no GPU that can run the kernels.
Expected<void> needs_hopper();

/// Each returns an exit code of `tessera`.
int tune(Arguments const& arguments);
int check(Arguments const& arguments);
/// Of a plan in a file: runs it and compares every stage with plain arithmetic.
int run_plan(std::string const& path);

/// On standard error. Returns the exit code that `tessera` would give.
int fail(Diagnostics const& reasons);

/// Shows on standard error what is tried: with the time of day before it and its time after it if `verbose`,
/// else redrawn where that is a terminal. "" wipes it.
void show_progress(std::string const& name, std::optional<double> us, bool verbose);

/// Names of kernels without the bits that only cuBLASLt reads.
std::string shown(std::string name);
/// "2026-11-21", UTC.
std::string today();

constexpr int ok = 0, answer_is_no = 1, usage = 2, environment = 3;

}  // namespace tessera::command
