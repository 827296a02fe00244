// SPDX-License-Identifier: Apache-2.0
// Launches that may run at the same time, as kernels of blocks that take room, wait and post: what a
// scheduler sees, without times.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/sm_room.hpp"
#include "tessera/measure/machine_profile.hpp"
#include "tessera/plan/plan.hpp"

namespace tessera::exploration {

/// What a block does between two moments at which a scheduler could notice: one tile, one ticket of a worker,
/// the wait of a wait kernel; or nothing, as a worker without a ticket and a block that may not leave yet.
struct Unit {
  int kernel;
  std::string name;
  std::vector<Awaited> awaited;
  std::vector<std::int64_t> posts;
  bool waits_for_kernels = false;  ///< ends only when the kernels before its own are complete
  int kind = 0;                    ///< units of one kind can be exchanged while they are resident
};

/// Who may start when. The first kernel of a group may at once.
enum class Gate {
  none,         ///< at once
  all_started,  ///< all blocks of the kernel before have started
  wait_kernel,  ///< the kernel before is its wait kernel, and has finished
};

struct KernelModel {
  std::string stage;  ///< name of its (first) stage
  Gate gate = Gate::none;
  bool is_wait = false;
  bool has_workers = false;
  bool is_early = false;    ///< its blocks leave only when the kernels before are complete
  int producer = -1;        ///< of a wait kernel: the kernel whose first block it waits for
  std::int64_t blocks = 0;  ///< placed in this order
  /// Its units are [first, first + count): one for each block, or the tickets that its workers draw.
  int first = 0;
  int count = 0;
  int idle = -1;  ///< unit: resident, and nothing to compute; -1: no block ever is
  SmRoom use;
};

/// A group of launches (see LaunchGroup). Everything before it is complete.
struct Model {
  Model(Plan const& plan, MachineProfile const& machine, LaunchGroup const& group, bool kinds_by_posts);

  std::vector<Unit> units;
  std::vector<KernelModel> kernels;
  std::vector<std::int64_t> counts;  ///< by semaphore, when the group begins
  int kinds = 0;
  bool in_order = true;        ///< a kernel that became ready earlier is placed whole before any later one
  bool starts_placed = false;  ///< a persistent launch by itself: where its workers are changes nothing
  SmRoom sm;
  int sms = 0;
  std::string refusal;  ///< not empty: cannot even be launched

 private:
  void add_launch(Plan const& plan, MachineProfile const& machine, LaunchGroup const& group, int index);
  void add_workers(Plan const& plan, MachineProfile const& machine, Launch const& launch,
                   KernelModel& kernel);
  void add_unit(Plan const& plan, int stage, std::int64_t block);
  void add_idle(Plan const& plan, Launch const& launch, KernelModel& kernel);
  void count_posts(Plan const& plan, LaunchGroup const& group);
  void find_kinds(bool by_posts);
};

}  // namespace tessera::exploration
