// SPDX-License-Identifier: Apache-2.0
// What a priced candidate came to, in the few numbers that tell it from another: kept for all of them, so
// that every one can say why it is not the plan.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/measure/machine_profile.hpp"
#include "tessera/plan/build.hpp"
#include "tessera/timeline.hpp"

namespace tessera {

struct Outcome {
  std::string description;
  std::optional<Mechanism> mechanism;  ///< nothing: mixed
  std::string policies, kernels, forms, optimizations;
  bool as_needed = false;
  bool merged = false;
  bool wait_kernels = false;
  int workers = 0;
  int workers_per_sm = 0;
  std::int64_t waits = 0;            ///< all semaphore waits of a launch
  std::int64_t posts_per_value = 0;  ///< most posts that one value counts
  std::int64_t stream_waves = 0;
  std::string filled_waves;
  double filled = 0;     ///< the same as a number
  double loaded_mb = 0;  ///< through L2, all blocks
  double us = 0;
  std::vector<double> starts_us;    ///< first block of each stage; empty if the pricer does not say
  std::vector<std::string> stages;  ///< names
};

Outcome outcome_of(Plan const& plan, Recipe const& recipe, Timeline const& timeline,
                   MachineProfile const& machine);

/// Why `loser` is not the plan when `winner` is: "+5.1 us: 2,304 waits instead of 96 ...".
std::string reason(Outcome const& loser, Outcome const& winner);

/// "memory", "matrix units", "launch latency" or "waiting": what takes the largest share of the time.
std::string bound_by(Plan const& plan, Timeline const& timeline, MachineProfile const& machine);

/// Plan::why. `next` is the cheapest other candidate, or null; `no_early_start` says why nothing else than
/// stream order was priced, and is empty where something was.
std::string choice_in_words(Outcome const& winner, Outcome const& best_stream_order, Outcome const* next,
                            std::string const& limiter, std::string const& no_early_start);

}  // namespace tessera
