// SPDX-License-Identifier: Apache-2.0
// Kernels of several streams that compete for SMs, seen from the block scheduler: one group of launches that
// start beside each other, a stage each.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "progress_waits.hpp"
#include "sm_room.hpp"
#include "tessera/measure/machine_profile.hpp"
#include "tessera/plan/plan.hpp"

namespace tessera::progress {

/// A stage's kernel, or the one-thread wait kernel in front of it.
struct Kernel {
  int stage;
  bool is_wait;
  std::int64_t blocks;
  std::int64_t waiting;  ///< blocks that wait for something
  SmRoom use;            ///< of one block
  int cluster = 1;       ///< blocks that get their places together
};

struct Setting {
  Setting(Waits const& waits, MachineProfile const& machine, std::vector<int> const& cluster_blocks = {});

  Plan const& plan;
  MachineProfile const& machine;
  Waits const& waits;
  std::vector<Kernel> kernels;      ///< in launch order
  std::vector<int> wait_kernel_of;  ///< by stage: index into kernels, or -1
  std::vector<int> kernel_of;       ///< by stage
  SmRoom sm;
  int sms;
  bool in_order;  ///< a kernel that became ready earlier is placed whole before any later one

  /// In every schedule all blocks of stage a are placed before the first of stage b > a.
  bool is_forced_before(int a, int b) const { return a < b && a >= first_forced_before(b); }
  /// The first of the stages of which that holds; b: of none.
  int first_forced_before(int b) const { return in_order ? forced_from_[static_cast<std::size_t>(b)] : b; }
  /// Blocks of stage b wait, through any number of stages, for stage a.
  bool waits_for(int b, int a) const {
    return waits_for_[static_cast<std::size_t>(b)][static_cast<std::size_t>(a)];
  }

 private:
  std::vector<std::vector<bool>> waits_for_;
  /// By stage: the earliest stage from which on every stage, up to this one, has a wait kernel before it.
  std::vector<int> forced_from_;
};

/// More than any GPU has whose kernels have clusters.
constexpr int k_most_gpcs = 16;

/// How many SMs must be without room for one of its blocks to keep a kernel out: all, but for a cluster,
/// which needs room on as many SMs of one GPC as it has blocks. Wherever more SMs than that have room, some
/// GPC has enough of them. (Blocks of a cluster may share an SM; that it can is not counted on.)
int sms_to_cover(Setting const& setting, int kernel);

struct Held {
  int sm;
  int kernel;
  std::int64_t block;
};

/// A state without a next step: `kernel`'s next block fits nowhere, and every resident block waits.
struct Stuck {
  int kernel;
  std::int64_t next;
  std::vector<Held> held;
};

/// Blocks of one kernel that may be stuck while another kernel lacks room.
struct Stickable {
  int kernel;
  std::int64_t blocks;
};
std::vector<Stickable> stickable(Setting const& setting, int blocked_kernel);

/// Can these blocks be placed so that no SM has room for one of `blocked_kernel`? False only if proved.
bool may_cover(Setting const& setting, int blocked_kernel, std::vector<Stickable> const& blocks);

/// Fewest blocks of `kernel` alone that keep `blocked_kernel` off one SM; 0: they cannot.
std::int64_t blocks_to_keep_out(Setting const& setting, int blocked_kernel, int kernel);

/// Tries schedules that put waiting kernels first. A result is a true deadlock; none proves nothing.
std::optional<Stuck> attack(Setting const& setting);

/// All schedules of a plan of at most `k_exact_blocks` blocks, by the placements alone.
constexpr std::int64_t k_exact_blocks = 64;
struct Verdict {
  bool complete;
  std::optional<Stuck> stuck;
};
Verdict search(Setting const& setting, std::int64_t max_states);

/// The refusal (E0302) in the user's names.
Diagnostic describe(Setting const& setting, Stuck const& stuck);

}  // namespace tessera::progress
