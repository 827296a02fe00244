// SPDX-License-Identifier: Apache-2.0
// One case of the soak: what runs at once, and what goes wrong in it. Made of a number alone.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::soak {

enum class Fault {
  none,
  held_sms,     ///< another kernel holds SMs for longer than the deadline
  held_tile,    ///< a tile is not computed before a wait has given up, or nobody waits for it
  exception,    ///< a kernel's arguments throw between two enqueues of a launch
  bad_enqueue,  ///< a kernel's arguments are more than CUDA takes
  stall,        ///< what makes the workload at hand stall (StallingWorkload)
};
char const* to_text(Fault fault);

/// A shipped workload. Loops are persistent launches all of whose blocks are resident.
enum class Workload {
  none,
  mlp,
  sum,
  loop,
  loop_by_words,
  loop_in_pairs,
  convolution,
  decoder,
  lattice_boltzmann,
  attention_block,
  layer
};
char const* to_text(Workload workload);
/// Those that do not wait only for blocks that have a place: held SMs make these late and no more.
bool can_stall(Workload workload);

/// Its parties, which run at once, are chains, then loops, then the workload.
struct Case {
  std::uint64_t number = 0;
  int first = 0;     ///< number of the first chain: a smaller case may have a later one alone
  int chains = 1;    ///< random plans
  int loops = 0;     ///< random loops in persistent launches; 0 or 1
  int launches = 8;  ///< of each party, one batch
  bool graphs = false;
  int threads =
      1;  ///< that launch each chain, in turns, each in a stream of its own; with its graph if there is one
  Workload workload = Workload::none;
  Fault fault = Fault::none;
  int faulty = 0;    ///< the party that has it
  int at = 0;        ///< in which launch of a batch
  int times = 1;     ///< so many batches have it, a sound one behind each
  int held_sms = 1;  ///< where some are held
  bool operator==(Case const&) const = default;

  int parties() const { return chains + loops + (workload == Workload::none ? 0 : 1); }
};

Case case_of(std::uint64_t number);

/// What goes wrong, for counts: "held_tile", "held_tile_of_loop", "stall_of_mlp". Empty where nothing does.
std::string kind_of(Case const& one);

/// The command line that runs it alone: "--case 17 --chains 1 ...".
std::string arguments_of(Case const& one);
/// Sets what an option of that line says. False: it is none of these, or the value is none.
bool set_argument(Case& one, std::string_view name, std::string const& value);

/// Smaller cases that may fail as this one did, the smallest first.
std::vector<Case> smaller_than(Case const& one);

}  // namespace tessera::soak
