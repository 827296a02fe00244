// SPDX-License-Identifier: Apache-2.0
// What tessera-gpu is asked to do. `tessera` writes this command line; a person uses that tool instead.
#pragma once

#include <string>
#include <tessera/diagnostic.hpp>
#include <vector>

#include "kernels/mlp/problem.hpp"

namespace tessera::gpu {

struct Arguments {
  std::string verb;         ///< "tune", "check" or "bench"
  std::string name;         ///< of the model, for tables
  mlp::Shape shape;         ///< without tokens
  std::vector<int> tokens;  ///< ascending, each once
  std::string cache;        ///< empty: the default; bench: none
  std::string output;       ///< bench: the record's values as JSON; empty: none
  bool quick = false;
  bool verbose = false;  ///< a line on standard error before each try
};

/// tune|check|bench --name N --model M --hidden H --form gelu|swiglu --type bf16|fp16 --tokens 1,16 [--cache
/// F]
/// [--output F] [--quick] [--verbose]. E0908.
Expected<Arguments> read_arguments(std::vector<std::string> const& words);

/// Each returns an exit code of `tessera`.
int tune(Arguments const& arguments);
int check(Arguments const& arguments);

/// On standard error. Returns the exit code that `tessera` would give.
int fail(Diagnostics const& reasons);

/// Shows a name on standard error: each on a line of its own if `verbose`, else redrawn where that is a
/// terminal. "" wipes it.
void show_progress(std::string const& name, bool verbose);

/// Names of kernels without the bits that only cuBLASLt reads.
std::string shown(std::string name);
/// "2026-11-21", UTC.
std::string today();

constexpr int ok = 0, answer_is_no = 1, usage = 2, environment = 3;

}  // namespace tessera::gpu
