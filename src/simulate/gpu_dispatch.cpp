// SPDX-License-Identifier: Apache-2.0
// Slots: which block starts on which SM.
#include <algorithm>

#include "gpu.hpp"

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

void Gpu::size_slots() {
  Footprint least = kernels_[0].footprint;
  for (auto const& kernel : kernels_) {
    least.threads = std::min(least.threads, kernel.footprint.threads);
    least.registers = std::min(least.registers, kernel.footprint.registers);
    least.shared = std::min(least.shared, kernel.footprint.shared);
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

// Breadth first, as the hardware spreads a grid: the emptiest SMs get one block each, then the next emptiest.
void Gpu::fill(int kernel_index, std::vector<std::int32_t> const& candidates) {
  auto& kernel = kernels_[static_cast<std::size_t>(kernel_index)];
  for (int level = 0; level < machine_.blocks_per_sm; ++level) {
    bool fuller = false;
    for (auto const i : candidates) {
      auto const& sm = sms_[static_cast<std::size_t>(i)];
      if (sm.resident == level && fits(sm, kernel.footprint)) {
        place(kernel_index, i);
        if (kernel.placed == kernel.blocks) return all_placed(kernel);
      }
      fuller = fuller || (sm.resident > level && fits(sm, kernel.footprint));
    }
    if (!fuller) return;
  }
}

// Places what has room. `candidates` are the SMs that a block left since the last time: no other has new
// room, unless a younger kernel's turn comes only now.
void Gpu::dispatch(std::vector<std::int32_t> const* candidates) {
  for (std::size_t k = 0; k < kernels_.size(); ++k) {
    auto& kernel = kernels_[k];
    if (!kernel.eligible || kernel.placed == kernel.blocks) continue;
    fill(static_cast<int>(k), *candidates);
    if (kernel.placed == kernel.blocks)
      candidates = &all_sms_;
    else if (machine_.dispatches_in_launch_order)
      return;
  }
}

void Gpu::place(int kernel_index, int sm_index) {
  auto& kernel = kernels_[static_cast<std::size_t>(kernel_index)];
  auto& sm = sms_[static_cast<std::size_t>(sm_index)];
  auto const base = sm_index * slots_;
  int slot = 0;
  while (blocks_[static_cast<std::size_t>(base + slot)].phase != Phase::vacant) ++slot;
  int const b = base + slot;
  sm.free.threads -= kernel.footprint.threads;
  sm.free.registers -= kernel.footprint.registers;
  sm.free.shared -= kernel.footprint.shared;
  ++sm.resident;
  auto const position = kernel.placed++;

  auto& block = blocks_[static_cast<std::size_t>(b)];
  block = Block{};
  block.kernel = kernel_index;
  block.sm = sm_index;
  block.slot = slot;
  block.started = now_;
  if (kernel.kind == Kernel::Kind::wait_kernel) {
    block.phase = Phase::wait_kernel;
    block.stage = kernel.stage;
    if (stages_[static_cast<std::size_t>(kernel.stage - 1)].first_start >= 0) sleep_until(b, now_);
    return;
  }
  slots_seen_ = std::max(slots_seen_, slot + 1);
  set_active(b, true);
  block.phase = Phase::starting;
  if (kernel.kind == Kernel::Kind::workers) {
    block.stage = -1;
    sleep_until(b, now_ + picoseconds(machine_.block_start_ns));
    return;
  }
  ++slot_runs_[static_cast<std::size_t>(b)];
  auto const s = static_cast<std::size_t>(kernel.stage);
  auto const work = work_at(s, position);
  block.stage = kernel.stage;
  block.tile = work.work.tile;
  block.split = work.work.split;
  block.pads = work.pads;
  block.position = position;
  auto delay = costs_[s].start + costs_[s].ticket;
  // cuSync's stage.start(): the first block of a producer releases the wait kernel behind it.
  auto const next = static_cast<std::size_t>(kernel.launch) + 1;
  if (position == 0 && next < plan_.launches.size() && plan_.launches[next].wait_kernel)
    delay += picoseconds(machine_.post_ns);
  start_prologue(b, delay);
  stage_started(kernel.stage);
}

void Gpu::release(int b) {
  auto& block = blocks_[static_cast<std::size_t>(b)];
  auto const sm_index = block.sm;
  auto& sm = sms_[static_cast<std::size_t>(sm_index)];
  auto const& kernel = kernels_[static_cast<std::size_t>(block.kernel)];
  sm.free.threads += kernel.footprint.threads;
  sm.free.registers += kernel.footprint.registers;
  sm.free.shared += kernel.footprint.shared;
  --sm.resident;
  block.phase = Phase::vacant;
  freed_.push_back(sm_index);
  if (kernel.kind == Kernel::Kind::wait_kernel) return;
  set_active(b, false);
  block_left(block.kernel);
}

}  // namespace tessera::simulation
