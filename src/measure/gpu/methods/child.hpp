// SPDX-License-Identifier: Apache-2.0
// A process of its own for what may never end, and its watchdog.
#pragma once

#include <string>
#include <vector>

namespace tessera::probe {

struct ChildRun {
  std::string output;    ///< what it wrote on standard output
  int exit_status = -1;  ///< -1: it did not exit by itself
  bool killed = false;   ///< it took longer than it was given
  bool gone = true;      ///< false: it was killed and is still there
  double seconds = 0;    ///< until it ended or was killed
};

/// Runs this program again with other words. Kills it after `most_seconds`, then waits for up to
/// `most_seconds_to_end` until it is gone. Throws std::runtime_error if no process can be started.
ChildRun run_again(std::vector<std::string> const& words, double most_seconds, double most_seconds_to_end);

}  // namespace tessera::probe
