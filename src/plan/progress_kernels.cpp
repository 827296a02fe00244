// SPDX-License-Identifier: Apache-2.0
#include "progress_kernels.hpp"

#include <algorithm>

#include "tessera/plan/progress.hpp"

namespace tessera::progress {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

/// [b][a]: stage b waits, through any number of stages, for the earlier stage a.
std::vector<std::vector<bool>> transitive_waits(Plan const& plan) {
  auto const stages = plan.pipeline.stages.size();
  std::vector<std::vector<bool>> waits(stages, std::vector<bool>(stages, false));
  auto const add = [&](int waiting, int set) {
    if (set >= 0) waits[at(waiting)][at(plan.semaphores[at(set)].producer)] = true;
  };
  for (auto const& planned : plan.dependences)
    add(plan.pipeline.dependences[at(planned.dependence)].consumer, planned.semaphore_set);
  for (auto const& edge : plan.reuse_edges) add(edge.writer, edge.semaphore_set);
  for (std::size_t b = 0; b < stages; ++b)
    for (std::size_t between = 0; between < b; ++between)
      if (waits[b][between])
        for (std::size_t a = 0; a < between; ++a)
          if (waits[between][a]) waits[b][a] = true;
  return waits;
}

}  // namespace

Setting::Setting(Waits const& waits_, MachineProfile const& machine_, std::vector<int> const& cluster_blocks)
    : plan(waits_.plan()),
      machine(machine_),
      waits(waits_),
      sm(empty_sm(machine_)),
      sms(machine_.sms),
      in_order(machine_.dispatches_in_launch_order),
      waits_for_(transitive_waits(waits_.plan())) {
  auto const& stages = plan.pipeline.stages;
  for (int s = 0; s < static_cast<int>(stages.size()); ++s) {
    wait_kernel_of.push_back(-1);
    if (s > 0 && plan.launches[at(s)].wait_kernel) {
      wait_kernel_of.back() = static_cast<int>(kernels.size());
      kernels.push_back({s, true, 1, 1, room_of(machine, wait_kernel_resources())});
    }
    // A wait kernel ends once the stage before has a block on an SM; that stage then became ready earlier.
    forced_from_.push_back(wait_kernel_of.back() < 0 ? s : forced_from_.back());
    kernel_of.push_back(static_cast<int>(kernels.size()));
    kernels.push_back({s, false, stages[at(s)].blocks(), waits.waiting_blocks(s),
                       room_of(machine, stages[at(s)].resources),
                       cluster_blocks.empty() ? 1 : cluster_blocks[at(s)]});
  }
}

int sms_to_cover(Setting const& setting, int kernel) {
  return std::max(0, setting.sms - k_most_gpcs * (setting.kernels[at(kernel)].cluster - 1));
}

std::vector<Stickable> stickable(Setting const& setting, int blocked_kernel) {
  auto const& blocked = setting.kernels[at(blocked_kernel)];
  auto const is_placed_before_blocked = [&](int stage) {
    return !blocked.is_wait && setting.is_forced_before(stage, blocked.stage);
  };
  std::vector<Stickable> result;
  for (int k = 0; k < static_cast<int>(setting.kernels.size()); ++k) {
    auto const& kernel = setting.kernels[at(k)];
    if (kernel.is_wait) {
      // Stuck only while the stage before has no block on an SM.
      if (k != blocked_kernel && !is_placed_before_blocked(kernel.stage - 1)) result.push_back({k, 1});
      continue;
    }
    if (!blocked.is_wait && setting.is_forced_before(blocked.stage, kernel.stage)) continue;
    bool can_wait = false;
    for (int earlier = 0, end = setting.first_forced_before(kernel.stage); earlier < end && !can_wait;
         ++earlier)
      can_wait = setting.waits_for(kernel.stage, earlier) && !is_placed_before_blocked(earlier);
    auto const blocks = k == blocked_kernel ? std::min(kernel.waiting, kernel.blocks - 1) : kernel.waiting;
    if (can_wait && blocks > 0) result.push_back({k, blocks});
  }
  return result;
}

std::int64_t blocks_to_keep_out(Setting const& setting, int blocked_kernel, int kernel) {
  auto const& blocked = setting.kernels[at(blocked_kernel)].use;
  auto const& use = setting.kernels[at(kernel)].use;
  auto left = setting.sm;
  std::int64_t count = 0;
  while (left.holds(blocked)) {
    if (!left.holds(use)) return 0;
    left -= use;
    ++count;
  }
  return count;
}

}  // namespace tessera::progress
