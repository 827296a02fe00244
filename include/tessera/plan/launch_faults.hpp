// SPDX-License-Identifier: Apache-2.0
// Do a plan's launches fit its pipeline and each other?
#pragma once

#include <string>
#include <vector>

#include "plan.hpp"

namespace tessera {

/// One contradiction, in words for a person.
struct LaunchFault {
  enum class About { launch, tickets, dependence, reuse_edge };
  About about;
  int index;  ///< of the launch (also where it is about tickets), dependence or reuse edge
  std::string message;
  std::string way_out;
};

/// Stages that are not in exactly one launch in order, several stages without workers, tickets that do not
/// name every block of their launch once, wait kernels and launches beside each other where they cannot be,
/// and edges that nothing keeps (KeptBy::nothing). Empty: the launches are sound, and everything in plan.hpp
/// may be asked of them. Precondition: stages, dependences and edges have indices that exist.
std::vector<LaunchFault> launch_faults(Plan const& plan);

}  // namespace tessera
