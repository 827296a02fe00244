// SPDX-License-Identifier: Apache-2.0
// Launches: when each may start, and when it is complete.
#include <algorithm>

#include "gpu.hpp"
#include "tessera/plan/progress.hpp"

namespace tessera::simulation {

void Gpu::add_kernels() {
  auto const& pipeline = plan_.pipeline;
  groups_ = groups_of(plan_);
  for (auto const& group : groups_) running_.push_back(group.end - group.first);
  for (std::size_t l = 0; l < plan_.launches.size(); ++l) {
    auto const& launch = plan_.launches[l];
    auto const s = static_cast<std::size_t>(launch.first);
    Kernel kernel;
    kernel.launch = static_cast<int>(l);
    kernel.stage = kernel.ticket_stage = launch.first;
    if (launch.wait_kernel) {
      auto wait = kernel;
      wait.kind = Kernel::Kind::wait_kernel;
      wait.footprint = footprint(machine_, wait_kernel_resources());
      wait.blocks = 1;
      kernels_.push_back(wait);
    }
    if (launch.workers > 0) {
      kernel.kind = Kernel::Kind::workers;
      kernel.footprint = footprint(machine_, worker_resources(pipeline, launch));
      kernel.blocks = launch.workers;
      for (int stage = launch.first; stage < launch.end(); ++stage)
        kernel.tickets += stages_[static_cast<std::size_t>(stage)].blocks;
    } else {
      kernel.footprint = footprint(machine_, pipeline.stages[s].resources);
      auto const persistent = std::int64_t{plan_.stages[s].persistent_blocks};
      kernel.blocks = persistent > 0 ? std::min(persistent, stages_[s].blocks) : stages_[s].blocks;
    }
    if (launch.start == LaunchStart::early && l > 0) kernel.after = kernel_of_launch_.back();
    auto const index = static_cast<int>(kernels_.size());
    kernel_of_launch_.push_back(index);
    for (int stage = launch.first; stage < launch.end(); ++stage) kernel_of_stage_.push_back(index);
    kernels_.push_back(kernel);
  }
}

// Launches beside each other are in streams of their own and start with the group, or their wait kernels do.
void Gpu::start_group(std::size_t group, Picoseconds at) {
  for (int l = groups_[group].first; l < groups_[group].end; ++l) {
    auto const& launch = plan_.launches[static_cast<std::size_t>(l)];
    if (l > groups_[group].first && launch.start != LaunchStart::beside) continue;
    make_eligible(kernel_of_launch_[static_cast<std::size_t>(l)] - (launch.wait_kernel ? 1 : 0), at);
  }
}

void Gpu::make_eligible(int kernel, Picoseconds at) { queue_.wake(first_kernel_ + kernel, at); }

void Gpu::all_placed(Kernel const& kernel) {
  auto const next = static_cast<std::size_t>(kernel.launch) + 1;
  if (kernel.kind == Kernel::Kind::wait_kernel || next == plan_.launches.size() ||
      plan_.launches[next].start != LaunchStart::early)
    return;
  make_eligible(kernel_of_launch_[next],
                now_ + picoseconds(machine_.trigger_ns) + picoseconds(machine_.pdl_gap_ns));
}

void Gpu::block_left(int kernel_index) {
  auto& kernel = kernels_[static_cast<std::size_t>(kernel_index)];
  end_ = std::max(end_, now_);
  if (++kernel.left < kernel.blocks) return;
  kernel.complete = true;
  wake(kernel.completion_waiters, now_ + grid_wait_);
  std::size_t group = 0;
  while (groups_[group].end <= kernel.launch) ++group;
  if (--running_[group] == 0 && group + 1 < groups_.size())
    start_group(group + 1, now_ + picoseconds(machine_.stream_gap_ns));
}

void Gpu::stage_started(int s) {
  auto& stage = stages_[static_cast<std::size_t>(s)];
  ++stage.started;
  if (stage.started == 1) {
    stage.first_start = now_;
    for (std::size_t b = 0; b < blocks_.size(); ++b)
      if (blocks_[b].phase == Phase::wait_kernel && blocks_[b].stage == s + 1)
        sleep_until(static_cast<int>(b), now_);
  }
}

void Gpu::stage_left(int s) {
  auto& stage = stages_[static_cast<std::size_t>(s)];
  ++stage.left;
  stage.last_end = now_;
  end_ = std::max(end_, now_);
}

}  // namespace tessera::simulation
