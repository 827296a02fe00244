// SPDX-License-Identifier: Apache-2.0
// The life of a block: prologue, early loads, parts of the main loop, store, post.
#include "gpu.hpp"

#include <algorithm>
#include <cmath>

namespace tessera::simulation {
namespace {

/// Closed queue of two stations (load, compute) with a bounded number of slices in flight: time over that of
/// the slower station alone. rho = faster over slower, both for the same slices. 1 when one of them is free,
/// (in_flight + 1) / in_flight when they are equal, 1 + rho with a single slice.
double stretch(double rho, double in_flight) {
  if (rho > 1 - 1e-6) return (in_flight + 1) / in_flight;
  auto const power = std::pow(rho, in_flight);
  return (1 - power * rho) / (1 - power);
}

}  // namespace

void Gpu::mark(int server) {
  if (dirty_[static_cast<std::size_t>(server)]) return;
  dirty_[static_cast<std::size_t>(server)] = 1;
  dirty_list_.push_back(server);
}

void Gpu::join(int server, double work, int b) {
  if (work <= 0) return;
  servers_[static_cast<std::size_t>(server)].join(now_, work, b);
  mark(server);
  ++blocks_[static_cast<std::size_t>(b)].flows;
}

double Gpu::computing_time(int sm_index) {
  auto& sm = sms_[static_cast<std::size_t>(sm_index)];
  sm.computing_time += static_cast<double>(now_ - sm.computing_since) * sm.computing;
  sm.computing_since = now_;
  return sm.computing_time;
}

void Gpu::timer(int b) {
  auto& block = blocks_[static_cast<std::size_t>(b)];
  switch (block.phase) {
    case Phase::starting: return block.stage < 0 ? draw_ticket(b) : after_prologue(b);
    case Phase::loading_early: return after_early_loads(b);
    case Phase::waiting_grid: stop_waiting(b); return next_part(b);
    case Phase::waiting:
      stop_waiting(b);
      ++block.wait_position;
      if (block.ready < 0) block.ready = now_;
      return next_part(b);
    case Phase::resuming: return start_part(b);
    case Phase::draining: return part_done(b);
    case Phase::waiting_reuse:
      stop_waiting(b);
      ++block.wait_position;
      return reuse_or_store(b);
    case Phase::posting: return post(b);
    case Phase::waiting_leave: set_active(b, true); return block.stage < 0 ? release(b) : finish(b);
    case Phase::wait_kernel: {
      auto const kernel = kernel_of_stage_[static_cast<std::size_t>(block.stage)];
      release(b);
      return make_eligible(kernel, now_ + picoseconds(machine_.stream_start_ns));
    }
    case Phase::storing:
      if (--block.flows == 0) store_done(b);
      return;
    case Phase::vacant:
    case Phase::main_loop: return;
  }
}

void Gpu::start_prologue(int b, Picoseconds time) {
  auto& block = blocks_[static_cast<std::size_t>(b)];
  block.phase = Phase::starting;
  if (!starts_at_once_[static_cast<std::size_t>(block.stage)]) return sleep_until(b, now_ + time);
  // Nothing to ask when the prologue is over: one wake-up for it and for the first slice's latency.
  block.ready = now_ + time;
  block.target = 1;
  block.wait_position = block.wait_count = 0;
  block.primed = true;
  block.phase = Phase::resuming;
  sleep_until(b, now_ + time + cost(block).latency);
}

void Gpu::after_prologue(int b) {
  auto& block = blocks_[static_cast<std::size_t>(b)];
  auto const list = awaited_[static_cast<std::size_t>(block.stage)].of(block.tile);
  block.wait_list = list.index;
  block.wait_begin = list.begin;
  block.wait_count = list.count;
  block.wait_position = 0;
  auto const& c = cost(block);
  block.loaded_early = c.loads_early && !is_continued(block) && has_to_wait(block);
  if (!block.loaded_early) return after_early_loads(b);
  block.phase = Phase::loading_early;
  block.primed = true;
  join(k_dram, c.early.dram, b);
  join(k_l2, c.early.l2, b);
}

void Gpu::after_early_loads(int b) {
  auto& block = blocks_[static_cast<std::size_t>(b)];
  if (waits_[static_cast<std::size_t>(block.stage)].grid_first && !launches_before_complete(block))
    return wait_for_launches_before(b, Phase::waiting_grid);
  next_part(b);
}

void Gpu::next_part(int b) {
  auto& block = blocks_[static_cast<std::size_t>(b)];
  auto& list = awaited_[static_cast<std::size_t>(block.stage)];
  auto const& c = cost(block);
  auto met = -block.wait_position;
  if (block.wait_position < block.wait_count) {
    // What was met for another tile with this list is met for good.
    auto& known = list.met(block.wait_list);
    block.wait_position = std::max(block.wait_position, known);
    while (block.wait_position < block.wait_count &&
           ready(list.at(block.wait_begin + block.wait_position).semaphore))
      ++block.wait_position;
    known = block.wait_position;
  }
  met += block.wait_position;
  bool const last = block.wait_position == block.wait_count;
  block.target = last ? 1 : list.at(block.wait_begin + block.wait_position).fraction;
  if (!last && block.target <= block.done) {
    // Without early loads the pipeline runs empty while the block waits.
    block.primed = c.loads_early;
    return wait_for(b, list.at(block.wait_begin + block.wait_position).semaphore, Phase::waiting);
  }
  if (block.ready < 0) block.ready = now_;
  auto const polls = (met + c.waits_per_poll - 1) / c.waits_per_poll;
  auto const delay = (c.hides_waits ? 0 : polls * wait_) + (block.primed ? 0 : c.latency);
  block.primed = true;
  block.phase = Phase::resuming;
  if (delay == 0) return start_part(b);
  sleep_until(b, now_ + delay);
}

void Gpu::start_part(int b) {
  auto& block = blocks_[static_cast<std::size_t>(b)];
  auto const& c = cost(block);
  auto const share = block.target - block.done;
  block.phase = Phase::main_loop;
  block.part_start = block.memory_end = block.compute_end = now_;
  block.part_computing = computing_time(block.sm);
  ++sms_[static_cast<std::size_t>(block.sm)].computing;
  join(k_dram, (c.loads.dram - (block.loaded_early ? c.early.dram : 0)) * share, b);
  join(k_l2, (c.loads.l2 - (block.loaded_early ? c.early.l2 : 0)) * share, b);
  join(k_first_sm + block.sm, c.flops * share, b);
  if (block.flows == 0) part_flows_done(b);
}

void Gpu::flow_done(int b, bool compute) {
  auto& block = blocks_[static_cast<std::size_t>(b)];
  (compute ? block.compute_end : block.memory_end) = now_;
  if (--block.flows > 0) return;
  if (block.phase == Phase::main_loop) return part_flows_done(b);
  if (block.phase == Phase::storing) return store_done(b);
  sleep_until(b, now_ + cost(block).latency);  // early loads: the first one's latency
}

void Gpu::part_flows_done(int b) {
  auto& block = blocks_[static_cast<std::size_t>(b)];
  auto const& c = cost(block);
  // How many blocks of the SM were in their main loop, on average over this part.
  auto const passed = static_cast<double>(now_ - block.part_start);
  auto const co_resident =
      passed > 0 ? std::max(1.0, (computing_time(block.sm) - block.part_computing) / passed) : 1.0;
  double const memory =
      std::max(static_cast<double>(block.memory_end - block.part_start),
               (block.target - block.done) * std::max(c.least_load_time, c.port_time * co_resident));
  auto const compute = static_cast<double>(block.compute_end - block.part_start);
  auto const slower = std::max(memory, compute);
  auto const rho = slower > 0 ? std::min(memory, compute) / slower : 0;
  auto const stretched =
      machine_.asynchronous_loads ? slower : slower * stretch(rho, c.slices_in_flight * co_resident);
  auto const end = block.part_start + static_cast<Picoseconds>(stretched);
  block.phase = Phase::draining;
  if (end <= now_) return part_done(b);
  sleep_until(b, end);
}

void Gpu::part_done(int b) {
  auto& block = blocks_[static_cast<std::size_t>(b)];
  computing_time(block.sm);
  --sms_[static_cast<std::size_t>(block.sm)].computing;
  block.done = block.target;
  if (block.wait_position < block.wait_count || block.done < 1) return next_part(b);
  block.loaded = now_;
  block.wait_position = 0;
  reuse_or_store(b);
}

void Gpu::reuse_or_store(int b) {
  auto& block = blocks_[static_cast<std::size_t>(b)];
  if (block.pads) return start_store(b);
  auto const& waits = waits_[static_cast<std::size_t>(block.stage)];
  for (; static_cast<std::size_t>(block.wait_position) < waits.reuse.size(); ++block.wait_position) {
    auto const semaphore = waits.reuse[static_cast<std::size_t>(block.wait_position)];
    if (!ready(semaphore)) return wait_for(b, semaphore, Phase::waiting_reuse);
  }
  if (waits.grid_before_store && !launches_before_complete(block))
    return wait_for_launches_before(b, Phase::waiting_reuse);
  start_store(b);
}

void Gpu::start_store(int b) {
  auto& block = blocks_[static_cast<std::size_t>(b)];
  auto const& c = cost(block);
  block.phase = Phase::storing;
  join(k_l2, c.store.l2, b);
  join(k_dram, c.store.dram, b);
  counted_dram_bytes_ += c.counted_dram_bytes;
  if (c.memory_bound) counted_dram_time_ += c.end;
  if (auto const least = goes_on(block) ? c.next : c.end; least > 0) {
    ++block.flows;
    sleep_until(b, now_ + least);
  }
  if (block.flows == 0) store_done(b);
}

void Gpu::store_done(int b) {
  auto& block = blocks_[static_cast<std::size_t>(b)];
  block.stored = now_;
  auto const time = cost(block).post;
  block.phase = Phase::posting;
  if (time == 0) return post(b);
  sleep_until(b, now_ + time);
}

void Gpu::post(int b) {
  auto& block = blocks_[static_cast<std::size_t>(b)];
  auto const s = static_cast<std::size_t>(block.stage);
  if (block.pads) return leave(b);
  if (record_tiles_) record(b);
  if (!posts_to_[s].empty()) {
    auto const tile = tile_of(grids_[s], block.tile);
    for (auto const i : posts_to_[s]) {
      auto const& set = plan_.semaphores[static_cast<std::size_t>(i)];
      auto& semaphore =
          semaphores_[static_cast<std::size_t>(set.first + set.map.semaphore_of(grids_[s], tile))];
      if (++semaphore.count != semaphore.value) continue;
      semaphore.seen = now_ + seen_later_[s];
      wake(semaphore.waiters, semaphore.seen + wait_);
    }
  }
  leave(b);
}

void Gpu::record(int b) {
  auto const& block = blocks_[static_cast<std::size_t>(b)];
  records_.push_back({block.stage, block.split, block.tile, 0, block.sm, block.slot, block.started,
                      std::max(block.ready, block.started), block.loaded, block.stored, now_, block.waiting});
}

// An early launch completes after the launches before it: its blocks see to that. A worker draws on until no
// ticket is left.
void Gpu::leave(int b) {
  auto& block = blocks_[static_cast<std::size_t>(b)];
  bool const is_worker = kernels_[static_cast<std::size_t>(block.kernel)].kind == Kernel::Kind::workers;
  if (!is_worker && !goes_on(block) && !launches_before_complete(block))
    return wait_for_launches_before(b, Phase::waiting_leave);
  finish(b);
}

void Gpu::finish(int b) {
  auto& block = blocks_[static_cast<std::size_t>(b)];
  stage_left(block.stage);
  if (kernels_[static_cast<std::size_t>(block.kernel)].kind == Kernel::Kind::workers) return draw_ticket(b);
  if (goes_on(block)) return next_tile(b);
  release(b);
}

}  // namespace tessera::simulation
