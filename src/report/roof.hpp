// SPDX-License-Identifier: Apache-2.0
// What a stage computes and moves, and how near that comes to what the machine can.
#pragma once

#include <cstddef>
#include <string>

#include "tessera/plan/plan.hpp"
#include "tessera/timeline.hpp"

namespace tessera::report {

/// Rates are over the time from where the stage's first block has waited, or begins to load before it waits,
/// to its last one's end, in which others may run, too.
struct StageRates {
  double flops = 0;  ///< of all blocks
  double bytes = 0;  ///< what it reads and writes, each byte once
  double ns = 0;     ///< 0: no time known
  double tflops() const { return ns > 0 ? flops / ns * 1e-3 : 0; }
  double gbps() const { return ns > 0 ? bytes / ns : 0; }
  /// How much of that time its operations take, or its bytes if all came from memory, the longer of them; 0:
  /// not known.
  double of_roof = 0;
  bool by_memory = false;  ///< the memory needs longer
};

StageRates stage_rates(Plan const& plan, Timeline const& timeline, std::size_t stage);

/// How far the simulator's times of kernels that it was not fitted to are off, in the median, at most
/// (docs/design/simulator.md, results/h200/predict.json). What gains less is not known to gain.
inline constexpr double k_model_error = 0.05;

}  // namespace tessera::report
