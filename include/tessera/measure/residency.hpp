// SPDX-License-Identifier: Apache-2.0
// Can a block of one kernel be on an SM together with blocks of another, and if not, what stops it? Said
// before anything runs: programmatic dependent launch and semaphores gain nothing from a consumer without
// room.
#pragma once

#include <string>
#include <vector>

#include "machine_profile.hpp"

namespace tessera {

/// One resource of an SM. Amounts are as the hardware gives them out: threads in warps, registers and shared
/// memory in their granularities, the system's shared memory included.
struct ResourceUse {
  std::string resource;  ///< "threads", "registers", "shared memory", "block slots"
  long long capacity = 0;
  long long resident = 0;    ///< taken by the resident blocks of the first kernel
  long long free = 0;        ///< capacity - resident
  long long one_first = 0;   ///< what one block of the first kernel takes
  long long one_second = 0;  ///< what one block of the second kernel takes
  long long room_for = 0;    ///< blocks of the second kernel that `free` holds
};

struct CoResidency {
  int first_alone = 0;   ///< blocks of the first kernel that an SM holds
  int second_alone = 0;  ///< blocks of the second kernel that an SM holds
  int first_resident = 0;
  int second_beside = 0;   ///< blocks of the second kernel beside them
  std::string stopped_by;  ///< resource of the least room; of the first kernel where first_alone is 0; "" if
                           ///< second_beside > 0
  std::vector<ResourceUse> uses;
  /// How much of an SM's memory is shared memory, the rest L1, where a kernel is alone: what its blocks need,
  /// as many as fit, in the steps of the hardware (CUDA C++ Programming Guide, "Compute Capabilities": shared
  /// memory). An SM that has one division takes no block of a kernel that asks for another, however much is
  /// free.
  long long first_division = 0, second_division = 0;  ///< bytes
  /// What would make room for one block of the second kernel; empty when there is room or nothing helps.
  std::vector<std::string> remedies;
};

/// Beside `first_resident` blocks of the first kernel on one SM; 0: as many as fit (a full SM, the case of a
/// producer with at least one wave). More than fit counts as the most that fit.
CoResidency why_not(MachineProfile const& machine, Resources const& first, Resources const& second,
                    int first_resident = 0);

/// Two sentences and a table of the four resources, <= 100 columns.
std::string to_text(CoResidency const& answer, std::string const& first, std::string const& second);

}  // namespace tessera
