// SPDX-License-Identifier: Apache-2.0
#include "stage_cost.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "padding.hpp"
#include "reuse.hpp"

namespace tessera::simulation {
namespace {

std::string const& output_of(Stage const& stage) { return stage.output.empty() ? stage.name : stage.output; }

bool written_before(Pipeline const& pipeline, std::size_t stage, std::string const& buffer) {
  for (std::size_t s = 0; s < stage; ++s)
    if (output_of(pipeline.stages[s]) == buffer) return true;
  return false;
}

bool read_after(Pipeline const& pipeline, std::size_t stage, std::string const& buffer) {
  for (std::size_t s = stage + 1; s < pipeline.stages.size(); ++s)
    for (auto const& operand : pipeline.stages[s].operands)
      if (operand.buffer == buffer) return true;
  return false;
}

bool has_dependence(Pipeline const& pipeline, std::size_t stage, std::string const& operand) {
  for (auto const& dependence : pipeline.dependences)
    if (dependence.consumer == static_cast<int>(stage) && dependence.operand == operand) return true;
  return false;
}

/// By dependence of the pipeline: does a consumer's block have to wait for it itself?
std::vector<char> awaited_by_blocks(Plan const& plan) {
  std::vector<char> result(plan.pipeline.dependences.size(), 0);
  for (auto const& planned : plan.dependences)
    result[static_cast<std::size_t>(planned.dependence)] = kept_by(plan, planned) != KeptBy::completion;
  return result;
}

/// Not for whole launches: that is one wait, of the hardware.
bool waits_for_tiles(Plan const& plan, int stage) {
  return std::any_of(plan.dependences.begin(), plan.dependences.end(), [&](PlannedDependence const& planned) {
    auto const& dependence = plan.pipeline.dependences[static_cast<std::size_t>(planned.dependence)];
    return dependence.consumer == stage && kept_by(plan, planned) == KeptBy::semaphores;
  });
}

/// A launch that cuts its work in its own way: it takes what the busiest of the GPU's parts takes, at its
/// share of that part's rate, and is not looked into.
void spread_over_gpu(StageCost& cost, Stage const& stage, MachineProfile const& machine, double clock_ghz) {
  double const matrix = cost.flops / (machine.sms * machine.matrix_flops_per_ns(clock_ghz));
  double const l2 = machine.l2_gbps > 0 ? (cost.loads.l2 + cost.store.l2) / machine.l2_gbps : 0;
  double const bytes = cost.loads.dram + cost.store.dram;
  double const memory = machine.dram_gbps > 0 ? bytes / machine.dram_gbps : 0;
  StageCost whole;
  whole.start = cost.start;
  whole.latency = cost.latency;
  whole.end = whole.next =
      picoseconds(std::max(matrix, std::max(l2, memory)) / stage.efficiency + stage.fixed_ns);
  whole.counted_dram_bytes = bytes;
  whole.memory_bound = memory >= std::max(matrix, l2);
  cost = whole;
}

/// Of a block that was measured only what is not in its time is left: tickets and posts.
void as_measured(StageCost& cost, BlockTime const& time, bool waits, MachineProfile const& machine,
                 double clock_ghz) {
  StageCost measured;
  // The part of its SM's matrix unit that it takes away from others stands for all that they share.
  measured.flops = time.share_ns * machine.matrix_flops_per_ns(clock_ghz);
  measured.least_load_time = (time.alone_ns + (waits ? time.waits_ns : 0)) * 1000;
  // Loads and arithmetic are measured together: nothing is left to overlap.
  measured.slices_in_flight = std::numeric_limits<int>::max();
  measured.ticket = cost.ticket;
  measured.post = cost.post;
  cost = measured;
}

}  // namespace

StageCost padding_cost(StageCost const& cost) {
  StageCost result;
  result.loads = cost.shared;
  result.early = cost.early_shared;
  result.loads_early = cost.loads_early && result.early.l2 > 0;
  result.hides_waits = cost.hides_waits;
  result.waits_per_poll = cost.waits_per_poll;
  result.least_load_time = result.loads.l2 > 0 ? cost.least_load_time : 0;
  result.port_time = cost.shared_port_time;
  result.flops = cost.flops;
  result.slices_in_flight = cost.slices_in_flight;
  result.end = cost.end;
  result.next = cost.next;
  result.start = cost.start;
  result.latency = cost.latency;
  result.ticket = cost.ticket;
  return result;
}

double first_launch_ns(Plan const& plan, MachineProfile const& machine) {
  bool const chained = plan.launches.front().start == LaunchStart::early;
  return chained ? std::min(machine.launch_ns, machine.pdl_grid_wait_ns) : machine.launch_ns;
}

std::vector<StageCost> stage_costs(Plan const& plan, MachineProfile const& machine, double clock_ghz) {
  auto const& pipeline = plan.pipeline;
  double const l2_bytes = machine.l2_mib * 1024 * 1024;
  auto const awaited = awaited_by_blocks(plan);
  std::vector<StageCost> costs(pipeline.stages.size());
  for (std::size_t s = 0; s < costs.size(); ++s) {
    auto const& stage = pipeline.stages[s];
    auto const& planned = plan.stages[s];
    auto const& launch = plan.launches[static_cast<std::size_t>(launch_of(plan, static_cast<int>(s)))];
    bool const by_workers = launch.workers > 0;
    auto const waits_through = [&](std::string const* operand) {
      for (std::size_t d = 0; d < awaited.size(); ++d) {
        auto const& dependence = pipeline.dependences[d];
        if (awaited[d] && dependence.consumer == static_cast<int>(s) &&
            (operand == nullptr || dependence.operand == *operand))
          return true;
      }
      return false;
    };
    auto const blocks = static_cast<double>(stage.blocks());
    auto& cost = costs[s];
    double early_share = 0;
    int const slices = std::max(stage.k_steps, 1);
    cost.slices_in_flight = std::clamp(stage.pipeline_stages, 1, slices);
    early_share = static_cast<double>(cost.slices_in_flight) / slices;
    auto const timing = machine.kernels.find(stage.kernel);
    bool const measured = timing != machine.kernels.end();
    // Workers take no tiles but those there are.
    if (measured && !by_workers) cost.padding = blocks_that_pad(stage, timing->second);
    auto const with_padding = static_cast<double>(stage.blocks() + cost.padding);
    auto const resident = by_workers ? std::int64_t{launch.workers}
                                     : std::int64_t{occupancy(machine, stage.resources)} * machine.sms;
    auto const wave = std::llround(static_cast<double>(resident) * blocks / with_padding);
    double loaded = 0, shared = 0;
    auto const reads = dram_reads(stage, planned, l2_bytes / std::max(machine.l2_parts, 1), wave);
    for (std::size_t i = 0; i < stage.operands.size(); ++i) {
      auto const& operand = stage.operands[i];
      bool const inside =
          has_dependence(pipeline, s, operand.name) || written_before(pipeline, s, operand.buffer);
      // What an earlier stage wrote is still in L2 when it is read for the first time.
      double const there = inside && operand.unique_bytes <= l2_bytes
                               ? std::min(operand.unique_bytes, operand.bytes_per_block * blocks)
                               : 0;
      bool const is_shared = operand.multicast > 1;
      Bytes bytes;
      bytes.dram = (reads[i] - there) / (is_shared ? with_padding : blocks);
      bytes.l2 = operand.bytes_per_block / std::max(operand.multicast, 1);
      auto const full = std::max(operand.bytes_per_block, operand.full_bytes);
      loaded += full;
      cost.loads += bytes;
      if (is_shared) cost.shared += bytes;
      if (is_shared) shared += full;
      if (waits_through(&operand.name)) continue;
      bytes = bytes * early_share;
      cost.early += bytes;
      if (is_shared) cost.early_shared += bytes;
    }
    cost.flops = stage.flops_per_block;
    if (measured) {
      auto const& kernel = timing->second;
      // As many operations as the matrix unit would do in the measured cycles.
      cost.flops =
          slices * kernel.slice_cycles * machine.matrix_flops_per_clock_per_sm * machine.matrix_efficiency;
      auto const activation = stage.activation == "gelu" ? kernel.gelu_cycles : 0;
      cost.end = picoseconds((kernel.tile_end_cycles + activation) / clock_ghz);
      cost.next = picoseconds((kernel.next_tile_cycles + activation) / clock_ghz);
      cost.waits_per_poll = kernel.waits_per_poll;
    }
    // A block cannot load faster than what it keeps in flight arrives: one latency per round of slices.
    double const rounds = static_cast<double>(slices) / cost.slices_in_flight;
    cost.least_load_time = cost.loads.l2 > 0 ? rounds * machine.dram_latency_ns * 1000 : 0;
    if (machine.sm_load_gbps > 0) {
      cost.port_time = loaded / machine.sm_load_gbps * 1000;
      cost.shared_port_time = shared / machine.sm_load_gbps * 1000;
    }

    cost.store.l2 = stage.store_bytes_per_block;
    // The splits of a tile write the same output, one after the other in L2: it reaches DRAM once.
    auto const output_bytes = stage.store_bytes_per_block * static_cast<double>(stage.tiles());
    bool const stays = read_after(pipeline, s, output_of(stage)) && output_bytes <= l2_bytes;
    cost.store.dram = stays ? 0 : stage.store_bytes_per_block / stage.splits;

    bool const early = planned.reorder_loads && cost.early.l2 > 0 && waits_through(nullptr);
    cost.loads_early = early;
    cost.hides_waits = early;
    cost.start = picoseconds(machine.block_start_ns);
    cost.latency = picoseconds(machine.dram_latency_ns);
    // The measured kernels find their tile from the number of their block.
    bool const ticket = by_workers || (planned.custom_order && !measured);
    cost.ticket = ticket ? picoseconds(machine.ticket_ns) : 0;
    bool posts = false;
    for (auto const& set : plan.semaphores) posts |= set.producer == static_cast<int>(s);
    if (posts) cost.post = picoseconds(planned.plain_store ? machine.store_post_ns : machine.post_ns);
    if (stage.block_time.known())
      as_measured(cost, stage.block_time, waits_for_tiles(plan, static_cast<int>(s)), machine, clock_ghz);
    else if (stage.efficiency > 0)
      spread_over_gpu(cost, stage, machine, clock_ghz);
  }
  return costs;
}

}  // namespace tessera::simulation
