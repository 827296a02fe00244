// SPDX-License-Identifier: Apache-2.0
// What all subcommands share: exit codes, where data and talk go, and how a refusal is shown.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/diagnostic.hpp"

namespace tessera::cli {

enum Exit : int {
  k_ok = 0,
  k_no = 1,           ///< the answer is no: refused by check, plan or simulate
  k_usage = 2,        ///< the command line is wrong
  k_environment = 3,  ///< a file or a tool is missing
  k_internal = 4,     ///< a defect of tessera
};

struct Session {
  bool json = false;
  bool quiet = false;
  std::string folder = {};  ///< of the programs that launch kernels; see run_companion()

  /// Data: standard output, nothing added; control characters in text are written out.
  void print(std::string_view data) const;
  /// Talk: a line on standard error, unless --quiet.
  void say(std::string const& line) const;
  /// One redrawn line on standard error, only where that is a terminal; "" wipes it.
  void progress(std::string const& line) const;
  /// Shows warnings on standard error.
  void warn(Diagnostics const& warnings) const;
  /// Shows why not: text on standard error, with --json also JSON on standard output. Returns the exit code
  /// that fits the first diagnostic.
  int fail(Diagnostics const& reasons) const;
};

/// A finding about the command line or the environment: no file and line of the user's to point at.
Diagnostics complaint(std::string code, std::string message, std::string suggestion = {},
                      std::vector<std::string> notes = {});

/// One JSON text as it is; several as members of one object: {"schema": ..., "<name>": [...]}.
std::string several_json(std::string_view schema, std::string_view name,
                         std::vector<std::string> const& texts);

}  // namespace tessera::cli
