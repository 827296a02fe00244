// SPDX-License-Identifier: Apache-2.0
// Runs one case: parties at once, a fault in one of them, and launches behind it that must be right.
#pragma once

#include <string>

#include "soak/case.hpp"
#include "soak/counts.hpp"

namespace tessera::soak {

struct Outcome {
  Counts counts;
  std::string failure;  ///< what must not be; empty: nothing
};

/// Of a launch in which something went wrong, either the library says so, or its results are right. Of all
/// others the results are right and nothing is said: of launches before it in its batch, of the batch behind
/// it, of other parties.
Outcome run_case(Case const& one);

}  // namespace tessera::soak
