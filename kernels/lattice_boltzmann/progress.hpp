// SPDX-License-Identifier: Apache-2.0
// How far a flow on a GPU is, and what may be asked of it next. Without CUDA.
#pragma once

#include "kernels/lattice_boltzmann/step_plan.hpp"

namespace tessera::lattice_boltzmann {

/// Where the cells of a flow in memory are depends on whether the steps done are even: in the first lattice
/// or the second, at their own places or at others. A graph keeps what was so when it was captured.
struct Progress {
  long long steps_done = 0;
  bool lost = false;        ///< a launch did not come to its end: cells of several steps stand side by side
  bool keeps_even = false;  ///< a graph counts on it that the steps done are even

  /// All refuse with E0569. `captured`: into a graph.
  Expected<void> may_run(Variant variant, long long steps, bool captured) const;
  Expected<void> may_write(Variant variant, bool captured) const;
  Expected<void> may_start_again(bool captured) const;

  /// What was enqueued.
  void ran(Variant variant, long long steps, bool captured);
  void written(Variant variant, bool captured);
  void started() { steps_done = 0, lost = false; }
};

}  // namespace tessera::lattice_boltzmann
