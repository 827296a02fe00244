// SPDX-License-Identifier: Apache-2.0
// One case of the soak: what runs at once, and what goes wrong in it. Made of a number alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::soak {

enum class Fault {
  none,
  held_sms,     ///< another kernel holds SMs for longer than the deadline
  late_tile,    ///< a tile takes longer than the deadline
  exception,    ///< a kernel's arguments throw between two enqueues of a launch
  bad_enqueue,  ///< a kernel's arguments are more than CUDA takes
};
char const* to_text(Fault fault);

/// A shipped workload beside the chains. Loops are persistent launches all of whose blocks are resident.
enum class Workload { none, mlp, sum, loop, loop_by_words, loop_in_pairs };
char const* to_text(Workload workload);

struct Case {
  std::uint64_t number = 0;
  int chains = 1;    ///< at once, each with a thread, a stream and a priority of its own; 0: a workload alone
  int launches = 8;  ///< of each chain
  bool graphs = false;
  Fault fault = Fault::none;
  int held_sms = 1;  ///< where some are held
  Workload workload = Workload::none;
};

Case case_of(std::uint64_t number);

/// The command line that runs it alone: "--case 17 --chains 1 ...".
std::string arguments_of(Case const& one);

/// Smaller cases that may fail as this one did, the smallest first.
std::vector<Case> smaller_than(Case const& one);

}  // namespace tessera::soak
