// SPDX-License-Identifier: Apache-2.0
// A plan as kernels of blocks that take room, wait and post: what a scheduler sees, without times.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/sm_room.hpp"
#include "tessera/measure/machine_profile.hpp"
#include "tessera/plan/plan.hpp"

namespace tessera::exploration {

/// One block, one wait kernel, or one ticket of a persistent launch.
struct Unit {
  int kernel;
  std::string name;
  std::vector<Awaited> awaited;
  std::vector<std::int64_t> posts;
  int complete_before = 0;  ///< stages [0, complete_before) must be complete before it ends (PDL)
  int kind = 0;             ///< units of one kind can be exchanged while they are resident
};

struct KernelModel {
  int stage;
  bool is_wait;
  int first;  ///< its units are [first, first + count), placed in this order
  int count;
  SmRoom use;
};

/// Who may start when.
enum class Gate {
  all_complete,  ///< all units of earlier stages have finished (stream order)
  all_started,   ///< all units of the stage before have started (PDL)
  wait_kernel,   ///< the stage's wait kernel, if it has one, has finished
};

struct Model {
  Model(Plan const& plan, MachineProfile const& machine, bool kinds_by_posts);

  std::vector<Unit> units;
  std::vector<KernelModel> kernels;
  std::vector<int> wait_kernel_of;  ///< by stage: kernel, or -1
  std::vector<int> kernel_of;       ///< by stage; all the same in a persistent launch
  std::int64_t semaphores = 0;
  int kinds = 0;
  Gate gate = Gate::all_complete;
  bool in_order = true;  ///< a kernel that became ready earlier is placed whole before any later one
  bool is_fused = false;
  SmRoom sm;
  int sms = 0;
  std::string refusal;  ///< not empty: cannot even be launched

 private:
  void add_kernel(Plan const& plan, int stage, bool is_wait, SmRoom const& use);
  void add_unit(Plan const& plan, int kernel, int stage, std::int64_t block);
  void add_persistent_launch(Plan const& plan, MachineProfile const& machine);
  void find_kinds(bool by_posts);
};

}  // namespace tessera::exploration
