// SPDX-License-Identifier: Apache-2.0
// The values of a machine profile that a plan rests on. A plan keeps them, so that a profile of the same name
// with other values is noticed.
#pragma once

#include <string>
#include <vector>

#include "../measure/machine_profile.hpp"

namespace tessera {

/// What planning, proving and pricing the pipeline look at: the profile's numbers and the timings of the
/// pipeline's kernels. Without sources, the probe and what several GPUs need.
MachineProfile planning_values(MachineProfile const& machine, Pipeline const& pipeline);

/// Could a file of a profile have these values? Not what a program makes up, as a GPU's own properties
/// without rates: a plan's file then leaves them out.
bool are_of_a_profile(MachineProfile const& values);

/// 16 hexadecimal digits, the same for the same values; the name does not count.
/// Precondition: planning_values() made them.
std::string hash_of_values(MachineProfile const& values);

/// A value by its name in the profile's file; "none" where a profile has no such kernel.
struct ValueDifference {
  std::string name;
  std::string before, after;

  bool operator==(ValueDifference const&) const = default;
};

/// Every value that differs between two profiles that planning_values() made.
std::vector<ValueDifference> value_differences(MachineProfile const& before, MachineProfile const& after);

}  // namespace tessera
