// SPDX-License-Identifier: Apache-2.0
// A GPU from a plan, and the loop that lets one instant after the other happen.
#include <algorithm>
#include <limits>
#include <numeric>

#include "gpu.hpp"
#include "padding.hpp"

namespace tessera::simulation {
namespace {

double or_unlimited(double rate) { return rate > 0 ? rate : std::numeric_limits<double>::infinity(); }

}  // namespace

Gpu::Gpu(Plan const& plan, MachineProfile const& machine, double clock_ghz, SimulateOptions const& options)
    : plan_(plan),
      machine_(machine),
      record_tiles_(options.record_tiles),
      costs_(stage_costs(plan, machine, clock_ghz)) {
  for (auto const ns : options.seen_later_ns) seen_later_.push_back(picoseconds(ns));
  seen_later_.resize(plan.stages.size());
  wait_ = picoseconds(machine.wait_ns);
  grid_wait_ = picoseconds(machine.pdl_grid_wait_ns);
  add_stages();
  add_semaphores();
  add_kernels();
  size_slots();
  add_machine(clock_ghz);
}

void Gpu::add_stages() {
  auto const& stages = plan_.pipeline.stages;
  stages_.resize(stages.size());
  waits_.resize(stages.size());
  std::int64_t blocks = 0;
  for (auto const& planned : plan_.dependences)
    if (kept_by(plan_, planned) == KeptBy::grid_wait) {
      auto const& dependence = plan_.pipeline.dependences[static_cast<std::size_t>(planned.dependence)];
      waits_[static_cast<std::size_t>(dependence.consumer)].grid_first = true;
    }
  for (auto const& edge : plan_.reuse_edges) {
    auto& waits = waits_[static_cast<std::size_t>(edge.writer)];
    waits.grid_before_store |= kept_by(plan_, edge) == KeptBy::grid_wait;
    if (edge.semaphore_set < 0) continue;
    auto const& set = plan_.semaphores[static_cast<std::size_t>(edge.semaphore_set)];
    for (std::int64_t k = 0; k < set.count; ++k) waits.reuse.push_back(set.first + k);
  }
  for (std::size_t s = 0; s < stages.size(); ++s) {
    stages_[s].blocks = stages[s].blocks() + costs_[s].padding;
    blocks += stages_[s].blocks;
    padding_costs_.push_back(padding_cost(costs_[s]));
    padded_.emplace_back();
    if (costs_[s].padding > 0)
      padded_.back() = with_padding(stages[s], plan_.stages[s], machine_.kernels.at(stages[s].kernel));
    grids_.push_back(stages[s].tile_grid());
    awaited_.emplace_back(plan_, static_cast<int>(s));
    starts_at_once_.push_back(awaited_[s].empty() && !costs_[s].loads_early && !waits_[s].grid_first);
  }
  if (record_tiles_) records_.reserve(static_cast<std::size_t>(blocks));
}

void Gpu::add_semaphores() {
  posts_to_.resize(stages_.size());
  for (std::size_t i = 0; i < plan_.semaphores.size(); ++i) {
    auto const& set = plan_.semaphores[i];
    auto const producer = static_cast<std::size_t>(set.producer);
    posts_to_[producer].push_back(static_cast<int>(i));
    if (static_cast<std::size_t>(set.first + set.count) > semaphores_.size())
      semaphores_.resize(static_cast<std::size_t>(set.first + set.count));
    for (std::int64_t k = 0; k < set.count; ++k)
      semaphores_[static_cast<std::size_t>(set.first + k)].value =
          set.map.tiles_of(grids_[producer], k) * plan_.pipeline.stages[producer].splits;
  }
}

void Gpu::add_machine(double clock_ghz) {
  // Bytes and operations per picosecond.
  servers_.emplace_back(or_unlimited(machine_.dram_gbps / 1000), machine_.sm_load_gbps / 1000);
  servers_.emplace_back(or_unlimited(machine_.l2_gbps / 1000), machine_.sm_load_gbps / 1000);
  double const matrix = machine_.matrix_flops_per_ns(clock_ghz) / 1000;
  for (int i = 0; i < machine_.sms; ++i) servers_.emplace_back(or_unlimited(matrix));
  for (std::size_t i = 0; i < servers_.size(); ++i) queue_.add(0);
  dirty_.assign(servers_.size(), 0);
  first_block_ = static_cast<int>(servers_.size());
  sms_.resize(static_cast<std::size_t>(machine_.sms));
  all_sms_.resize(sms_.size());
  std::iota(all_sms_.begin(), all_sms_.end(), 0);
  for (auto& sm : sms_)
    sm.free = {machine_.threads_per_sm, machine_.registers_per_sm, machine_.shared_bytes_per_sm};
  blocks_.resize(sms_.size() * static_cast<std::size_t>(slots_));
  slot_runs_.assign(blocks_.size(), 0);
  for (std::size_t i = 0; i < blocks_.size(); ++i) queue_.add(1);
  first_kernel_ = first_block_ + static_cast<int>(blocks_.size());
  for (std::size_t i = 0; i < kernels_.size(); ++i) queue_.add(2);
}

bool Gpu::run() {
  start_group(0, picoseconds(first_launch_ns(plan_, machine_)));
  for (;;) {
    // Servers are asked for their next end once per instant, not once per flow that joins.
    for (auto const server : dirty_list_) {
      dirty_[static_cast<std::size_t>(server)] = 0;
      auto const next = servers_[static_cast<std::size_t>(server)].next(now_);
      next == k_never ? queue_.sleep(server) : queue_.wake(server, next);
    }
    dirty_list_.clear();
    if (queue_.empty()) break;
    now_ = queue_.next_time();
    while (queue_.next_time() == now_) handle(queue_.pop());
    // Slots that came free together are filled together, so that a ragged last wave spreads over SMs.
    if (new_kernel_)
      dispatch(&all_sms_);
    else if (!freed_.empty())
      dispatch(&freed_);
    new_kernel_ = false;
    freed_.clear();
  }
  return std::all_of(stages_.begin(), stages_.end(), [](StageState const& s) { return s.complete(); });
}

void Gpu::handle(int component) {
  if (component >= first_kernel_) {
    kernels_[static_cast<std::size_t>(component - first_kernel_)].eligible = true;
    new_kernel_ = true;
  } else if (component >= first_block_) {
    timer(component - first_block_);
  } else {
    std::vector<std::int32_t>& ended = ended_;
    ended.clear();
    servers_[static_cast<std::size_t>(component)].complete(now_, [&](std::int32_t b) { ended.push_back(b); });
    mark(component);
    for (auto const b : ended) flow_done(b, component >= k_first_sm);
  }
}

}  // namespace tessera::simulation
