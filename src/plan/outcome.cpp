// SPDX-License-Identifier: Apache-2.0
#include "plan/outcome.hpp"

#include <algorithm>

#include "plan/assemble.hpp"
#include "tessera/plan/waves.hpp"

namespace tessera {

Outcome outcome_of(Plan const& plan, Recipe const& recipe, Timeline const& timeline,
                   MachineProfile const& machine) {
  Outcome o;
  o.description = describe(plan);
  o.mechanism = mechanism_of(plan);
  o.policies = policy_text(plan);
  o.kernels = kernel_text(plan.pipeline);
  o.forms = form_text(plan);
  o.optimizations = optimization_text(plan);
  for (auto const& launch : plan.launches) {
    o.merged = o.merged || !launch.tickets.empty();
    o.workers = std::max(o.workers, launch.workers);
    o.wait_kernels = o.wait_kernels || launch.wait_kernel;
  }
  std::vector<int> occupancies;
  for (auto const& stage : plan.stages) {
    o.as_needed = o.as_needed || (!stage.order.table.empty() && !stage.order.bands);
    o.workers_per_sm = stage.occupancy;
    occupancies.push_back(stage.occupancy);
  }
  if (!plan.semaphores.empty())
    for (auto const& policy : recipe.policies) {
      o.waits += policy.waits;
      o.posts_per_value = std::max(o.posts_per_value, policy.posts_per_value);
    }
  auto const count = count_waves(plan.pipeline, occupancies, machine.sms);
  o.stream_waves = count.stream_order;
  o.filled_waves = count.filled_text;
  o.filled = count.filled;
  for (auto const& stage : plan.pipeline.stages) {
    o.stages.push_back(stage.name);
    for (auto const& operand : stage.operands)
      o.loaded_mb += operand.bytes_per_block * static_cast<double>(stage.blocks()) * 1e-6;
  }
  o.us = static_cast<double>(timeline.end) * 1e-6;
  if (timeline.stages.size() == plan.stages.size())
    for (auto const& span : timeline.stages)
      o.starts_us.push_back(static_cast<double>(span.first_start) * 1e-6);
  return o;
}

std::string bound_by(Plan const& plan, Timeline const& timeline, MachineProfile const& machine) {
  double const ns = std::max(static_cast<double>(timeline.end) * 1e-3, 1e-9);
  double flops = 0, measured_ns = 0;
  for (auto const& stage : plan.pipeline.stages) {
    auto const blocks = static_cast<double>(stage.blocks());
    (stage.block_time.known() ? measured_ns : flops) +=
        blocks * (stage.block_time.known() ? stage.block_time.share_ns : stage.flops_per_block);
  }
  double const flops_per_ns = machine.sms * machine.matrix_flops_per_ns();
  double const matrix = flops_per_ns > 0 ? flops / flops_per_ns / ns : 0;
  double const sm = measured_ns / std::max(machine.sms, 1) / ns;
  double const transfer = machine.dram_gbps > 0 ? timeline.dram_bytes / machine.dram_gbps / ns : 0;
  double const memory = std::max(timeline.dram_busy, transfer);
  double gaps = 0;
  for (std::size_t l = 1; l < plan.launches.size(); ++l) {
    switch (plan.launches[l].start) {
      case LaunchStart::in_order: gaps += machine.stream_gap_ns; break;
      case LaunchStart::early: gaps += machine.pdl_gap_ns; break;
      case LaunchStart::beside: gaps += machine.stream_start_ns; break;
    }
  }
  double const launch = (machine.launch_ns + gaps) / ns;
  double const waiting = timeline.busy > 0 ? std::max(0.0, 1 - timeline.busy - launch) : 0;
  double const most = std::max({matrix, memory, sm, launch, waiting});
  if (most == memory) return "memory";
  if (most == matrix) return "matrix units";
  if (most == sm) return "the SMs";
  if (most == launch) return "launch latency";
  return "waiting";
}

}  // namespace tessera
