// SPDX-License-Identifier: Apache-2.0
// Runs one case: chains at once, a fault, and launches behind it that must be right.
#pragma once

#include <cstdint>
#include <string>

#include "soak/case.hpp"

namespace tessera::soak {

struct Outcome {
  std::uint64_t launches = 0;
  std::uint64_t refused_plans = 0;  ///< plans that this GPU cannot run, with a reason
  std::uint64_t faults = 0;         ///< that were injected
  std::uint64_t said = 0;           ///< of those: the library said that something went wrong
  std::string failure;              ///< what must not be; empty: nothing
};

/// Of a launch in which something went wrong, either the library says so, or its results are right. Of a
/// launch in which nothing did, the results are right and nothing is said. The batch behind a fault is right.
Outcome run_case(Case const& one);

}  // namespace tessera::soak
