// SPDX-License-Identifier: Apache-2.0
#include "power.hpp"

#include <algorithm>
#include <cmath>

#include "stage_cost.hpp"

namespace tessera::simulation {

double watts(MachineProfile const& m, Work const& work, double nanoseconds, double clock_ghz) {
  if (nanoseconds <= 0) return m.power_idle_w;
  // pJ/ns is mW.
  auto const mean = [&](double amount, double picojoule) { return amount * picojoule / nanoseconds / 1000; };
  auto const in_chip =
      m.power_w_per_ghz * clock_ghz + mean(work.flops, m.pj_per_flop) + mean(work.l2_bytes, m.pj_per_l2_byte);
  return m.power_idle_w + std::pow(clock_ghz / m.clock_ghz, m.power_exponent) * in_chip +
         mean(work.dram_bytes, m.pj_per_dram_byte);
}

double clock_within_limit(MachineProfile const& machine, std::function<double(double)> const& drawn) {
  if (drawn(machine.clock_ghz) <= machine.power_limit_w) return machine.clock_ghz;
  // Below a fifth of it no GPU goes.
  double low = machine.clock_ghz / 5, high = machine.clock_ghz;
  for (int i = 0; i < 40; ++i) {
    auto const middle = (low + high) / 2;
    (drawn(middle) > machine.power_limit_w ? high : low) = middle;
  }
  return low;
}

double settled_clock(MachineProfile const& machine, Work const& work, double steady_ns, double cycles) {
  if (machine.power_limit_w <= 0) return machine.clock_ghz;
  return clock_within_limit(
      machine, [&](double clock) { return watts(machine, work, steady_ns + cycles / clock, clock); });
}

Load load_of(Plan const& plan, Timeline const& timeline, double clock_ghz) {
  // Nearly all of it is the matrix units' where power matters. Only how fast a repetition converges depends
  // on the share.
  constexpr double k_share_in_cycles = 0.9;
  Load load;
  load.work = work_of(plan.pipeline);
  load.work.dram_bytes = timeline.dram_bytes;
  auto const nanoseconds = static_cast<double>(timeline.end) / 1000;
  load.cycles = nanoseconds * k_share_in_cycles * clock_ghz;
  load.steady_ns = nanoseconds * (1 - k_share_in_cycles);
  return load;
}

Work work_of(Pipeline const& pipeline) {
  Work work;
  for (auto const& stage : pipeline.stages) {
    auto const blocks = static_cast<double>(stage.blocks());
    work.flops += stage.flops_per_block * blocks;
    for (auto const& operand : stage.operands) {
      work.l2_bytes += operand.bytes_per_block * blocks / std::max(operand.multicast, 1);
      work.dram_bytes += std::min(operand.unique_bytes, operand.bytes_per_block * blocks);
    }
  }
  return work;
}

double first_clock(Plan const& plan, MachineProfile const& machine) {
  double steady = first_launch_ns(plan, machine), cycles = 0;
  for (auto const& stage : plan.pipeline.stages) {
    auto const slots = std::max(occupancy(machine, stage.resources), 1) * std::int64_t{machine.sms};
    auto const timing = machine.kernels.find(stage.kernel);
    auto const of_block =
        timing != machine.kernels.end()
            ? stage.k_steps * timing->second.slice_cycles + timing->second.tile_end_cycles
            : stage.flops_per_block / machine.matrix_flops_per_clock_per_sm / machine.matrix_efficiency;
    auto const waves = (stage.blocks() + slots - 1) / slots;
    cycles += static_cast<double>(waves * slots / machine.sms) * of_block;
    steady += machine.block_start_ns + machine.stream_gap_ns;
  }
  return settled_clock(machine, work_of(plan.pipeline), steady, cycles);
}

}  // namespace tessera::simulation
