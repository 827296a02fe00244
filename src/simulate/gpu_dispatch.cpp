// SPDX-License-Identifier: Apache-2.0
// Launches and slots: who may start, and on which SM.
#include <algorithm>

#include "gpu.hpp"
#include "tessera/plan/progress.hpp"

namespace tessera::simulation {
namespace {

constexpr int k_warp = 32;

std::int32_t round_up(std::int32_t value, std::int32_t step) { return (value + step - 1) / step * step; }

}  // namespace

Footprint footprint(MachineProfile const& machine, Resources const& r) {
  int const warps = round_up(std::max(r.threads, 1), k_warp) / k_warp;
  return {warps * k_warp,
          warps * round_up(std::max(r.registers_per_thread, 1) * k_warp, machine.register_granularity),
          round_up(r.shared_bytes + machine.shared_reserved_per_block, machine.shared_granularity)};
}

void Gpu::add_launches() {
  auto const& pipeline = plan_.pipeline;
  if (plan_.mechanism == Mechanism::fused) {
    launches_.push_back(
        {Launch::Kind::workers, -1, footprint(machine_, fused_resources(pipeline)), plan_.workers});
    stage_launch_.assign(pipeline.stages.size(), 0);
  } else {
    for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
      int const stage = static_cast<int>(s);
      if (plan_.mechanism == Mechanism::wait_kernel && s > 0 && plan_.stages[s].wait_kernel)
        launches_.push_back(
            {Launch::Kind::wait_kernel, stage, footprint(machine_, wait_kernel_resources()), 1});
      stage_launch_.push_back(static_cast<int>(launches_.size()));
      auto const persistent = std::int64_t{plan_.stages[s].persistent_blocks};
      launches_.push_back({Launch::Kind::stage, stage, footprint(machine_, pipeline.stages[s].resources),
                           persistent > 0 ? std::min(persistent, stages_[s].blocks) : stages_[s].blocks});
    }
  }
}

void Gpu::size_slots() {
  Footprint least = launches_[0].footprint;
  for (auto const& launch : launches_) {
    least.threads = std::min(least.threads, launch.footprint.threads);
    least.registers = std::min(least.registers, launch.footprint.registers);
    least.shared = std::min(least.shared, launch.footprint.shared);
  }
  slots_ = std::min({machine_.blocks_per_sm, machine_.threads_per_sm / least.threads,
                     machine_.registers_per_sm / least.registers});
  if (least.shared > 0) slots_ = std::min(slots_, machine_.shared_bytes_per_sm / least.shared);
  slots_ = std::max(slots_, 1);
}

bool Gpu::fits(Sm const& sm, Footprint const& f) const {
  return sm.resident < machine_.blocks_per_sm && sm.free.threads >= f.threads &&
         sm.free.registers >= f.registers && sm.free.shared >= f.shared;
}

void Gpu::make_eligible(int launch, Picoseconds at) { queue_.wake(first_launch_ + launch, at); }

// Breadth first, as the hardware spreads a grid: the emptiest SMs get one block each, then the next emptiest.
void Gpu::fill(int launch_index, std::vector<std::int32_t> const& candidates) {
  auto& launch = launches_[static_cast<std::size_t>(launch_index)];
  for (int level = 0; level < machine_.blocks_per_sm; ++level) {
    bool fuller = false;
    for (auto const i : candidates) {
      if (launch.placed == launch.blocks) return;
      auto const& sm = sms_[static_cast<std::size_t>(i)];
      if (sm.resident == level && fits(sm, launch.footprint)) place(launch_index, i);
      fuller = fuller || (sm.resident > level && fits(sm, launch.footprint));
    }
    if (!fuller) return;
  }
}

// Places what has room. `candidates` are the SMs that a block left since the last time: no other has new
// room, unless a younger launch's turn comes only now.
void Gpu::dispatch(std::vector<std::int32_t> const* candidates) {
  for (std::size_t l = 0; l < launches_.size(); ++l) {
    auto& launch = launches_[l];
    if (!launch.eligible || launch.placed == launch.blocks) continue;
    fill(static_cast<int>(l), *candidates);
    if (launch.placed == launch.blocks)
      candidates = &all_sms_;
    else if (machine_.dispatches_in_launch_order)
      return;
  }
}

void Gpu::place(int launch_index, int sm_index) {
  auto& launch = launches_[static_cast<std::size_t>(launch_index)];
  auto& sm = sms_[static_cast<std::size_t>(sm_index)];
  auto const base = sm_index * slots_;
  int slot = 0;
  while (blocks_[static_cast<std::size_t>(base + slot)].phase != Phase::vacant) ++slot;
  int const b = base + slot;
  sm.free.threads -= launch.footprint.threads;
  sm.free.registers -= launch.footprint.registers;
  sm.free.shared -= launch.footprint.shared;
  ++sm.resident;
  auto const position = launch.placed++;

  auto& block = blocks_[static_cast<std::size_t>(b)];
  block = Block{};
  block.launch = launch_index;
  block.sm = sm_index;
  block.slot = slot;
  block.started = now_;
  if (launch.kind == Launch::Kind::wait_kernel) {
    block.phase = Phase::wait_kernel;
    block.stage = launch.stage;
    if (stages_[static_cast<std::size_t>(launch.stage - 1)].first_start >= 0) sleep_until(b, now_);
    return;
  }
  slots_seen_ = std::max(slots_seen_, slot + 1);
  set_active(b, true);
  block.phase = Phase::starting;
  if (launch.kind == Launch::Kind::workers) {
    block.stage = -1;
    sleep_until(b, now_ + picoseconds(machine_.block_start_ns));
    return;
  }
  ++slot_runs_[static_cast<std::size_t>(b)];
  auto const s = static_cast<std::size_t>(launch.stage);
  auto const work = work_at(s, position);
  block.stage = launch.stage;
  block.tile = work.tile;
  block.split = work.split;
  block.position = position;
  auto delay = costs_[s].start + costs_[s].ticket;
  // cuSync's stage.start(): the first block of a producer releases the wait kernel behind it.
  if (position == 0 && s + 1 < stages_.size() && plan_.mechanism == Mechanism::wait_kernel &&
      plan_.stages[s + 1].wait_kernel)
    delay += picoseconds(machine_.post_ns);
  start_prologue(b, delay);
  stage_started(launch.stage);
  bool const pdl = plan_.mechanism == Mechanism::pdl || plan_.mechanism == Mechanism::pdl_tiles;
  if (pdl && launch.placed == launch.blocks && s + 1 < stages_.size())
    make_eligible(stage_launch_[s + 1],
                  now_ + picoseconds(machine_.trigger_ns) + picoseconds(machine_.pdl_gap_ns));
}

void Gpu::release(int b) {
  auto& block = blocks_[static_cast<std::size_t>(b)];
  auto const sm_index = block.sm;
  auto& sm = sms_[static_cast<std::size_t>(sm_index)];
  auto const& launch = launches_[static_cast<std::size_t>(block.launch)];
  sm.free.threads += launch.footprint.threads;
  sm.free.registers += launch.footprint.registers;
  sm.free.shared += launch.footprint.shared;
  --sm.resident;
  if (launch.kind != Launch::Kind::wait_kernel) set_active(b, false);
  block.phase = Phase::vacant;
  freed_.push_back(sm_index);
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
  stage.last_end = now_;
  end_ = std::max(end_, now_);
  if (++stage.left < stage.blocks) return;
  stage.complete = true;
  wake(stage.grid_waiters, now_ + grid_wait_);
  if (plan_.mechanism == Mechanism::stream_order && static_cast<std::size_t>(s) + 1 < stages_.size())
    make_eligible(stage_launch_[static_cast<std::size_t>(s) + 1], now_ + picoseconds(machine_.stream_gap_ns));
}

}  // namespace tessera::simulation
