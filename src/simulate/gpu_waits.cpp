// SPDX-License-Identifier: Apache-2.0
// Who waits for what, and who is woken.
#include "gpu.hpp"

namespace tessera::simulation {

void Gpu::sleep_until(int b, Picoseconds at) { queue_.wake(first_block_ + b, at); }

void Gpu::set_active(int b, bool active) {
  auto& sm = sms_[static_cast<std::size_t>(blocks_[static_cast<std::size_t>(b)].sm)];
  if (active) {
    if (sm.active++ == 0) sm.active_since = now_;
  } else if (--sm.active == 0) {
    active_time_ += now_ - sm.active_since;
  }
}

bool Gpu::launches_before_complete(Block const& block) const {
  auto const after = kernels_[static_cast<std::size_t>(block.kernel)].after;
  return after < 0 || kernels_[static_cast<std::size_t>(after)].complete;
}

// Where everything is there already, nothing is to be had from loading some of it first.
bool Gpu::has_to_wait(Block const& block) {
  if (waits_[static_cast<std::size_t>(block.stage)].grid_first && !launches_before_complete(block))
    return true;
  if (block.wait_count == 0) return false;
  auto& list = awaited_[static_cast<std::size_t>(block.stage)];
  return !ready(list.at(block.wait_begin).semaphore);
}

void Gpu::wait_for(int b, std::int64_t semaphore, Phase phase) {
  blocks_[static_cast<std::size_t>(b)].waits_for = semaphore;
  auto& s = semaphores_[static_cast<std::size_t>(semaphore)];
  start_waiting(b, s.waiters, phase);
  // Posted and on its way: nobody posts again.
  if (s.count >= s.value) wake(s.waiters, s.seen + wait_);
}

// Of them the last completes last.
void Gpu::wait_for_launches_before(int b, Phase phase) {
  auto const& kernel = kernels_[static_cast<std::size_t>(blocks_[static_cast<std::size_t>(b)].kernel)];
  start_waiting(b, kernels_[static_cast<std::size_t>(kernel.after)].completion_waiters, phase);
}

void Gpu::start_waiting(int b, std::int32_t& waiters, Phase phase) {
  auto& block = blocks_[static_cast<std::size_t>(b)];
  block.phase = phase;
  block.waiting_since = now_;
  block.next = waiters;
  waiters = b;
  set_active(b, false);
}

void Gpu::wake(std::int32_t& list, Picoseconds at) {
  for (auto b = list; b >= 0; b = blocks_[static_cast<std::size_t>(b)].next) sleep_until(b, at);
  list = -1;
}

void Gpu::stop_waiting(int b) {
  auto& block = blocks_[static_cast<std::size_t>(b)];
  if (block.phase != Phase::waiting_reuse) block.waiting += now_ - block.waiting_since;
  block.waits_for = -1;
  set_active(b, true);
}

}  // namespace tessera::simulation
