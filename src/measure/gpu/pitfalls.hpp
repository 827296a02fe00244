// SPDX-License-Identifier: Apache-2.0
// What happens when the rules of synchronization are broken. Each case runs in a process of its own, which is
// this program again with "--pitfall <name>".
#pragma once

#include <string>
#include <vector>

namespace tessera::probe {

/// `answer` is one of a Verdict's.
struct Outcome {
  std::string answer, note;
};

struct Pitfall {
  std::string name;  ///< "grid.subset"
  std::string what;
  Outcome (*run)();
  bool bounded = true;  ///< everything in it has a deadline; else the watchdog is expected
};

std::vector<Pitfall> inside_an_sm();    ///< warps, blocks, clusters
std::vector<Pitfall> between_blocks();  ///< grids, kernels, GPUs

/// The child's side: runs one case and writes its answer and note on standard output, a line each. "health"
/// runs a trivial kernel. Returns the exit status.
int run_pitfall(std::string const& name);

}  // namespace tessera::probe
