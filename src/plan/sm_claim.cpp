// SPDX-License-Identifier: Apache-2.0
#include "tessera/plan/sm_claim.hpp"

#include <algorithm>

#include "progress_waits.hpp"
#include "tessera/plan/parts.hpp"
#include "tessera/plan/progress.hpp"

namespace tessera {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

int cut(std::int64_t sms, MachineProfile const& machine) {
  return static_cast<int>(std::min<std::int64_t>(sms, machine.sms));
}

/// All workers have to be there at once, one on each SM at worst.
SmClaim of_workers(Plan const& plan, Launch const& launch, MachineProfile const& machine) {
  auto const per_sm = std::max(1, occupancy(machine, worker_resources(plan.pipeline, launch)));
  return {cut(launch.workers, machine), cut((launch.workers + per_sm - 1) / per_sm, machine)};
}

/// Does every ticket come after those that its tile waits for?
bool producers_come_first(Plan const& plan) {
  auto const& launch = plan.launches.front();
  if (launch.tickets.empty()) return true;
  progress::Waits const waits(plan);
  progress::Flow flow(waits);
  std::vector<progress::Block> finished;
  for (auto const& ticket : launch.tickets) {
    finished.clear();
    flow.start({ticket.stage, ticket.position}, finished);
    if (finished.size() != 1) return false;
  }
  return true;
}

/// The fewest SMs on which the proof holds.
int fewest_sms(Plan const& plan, MachineProfile machine, std::vector<int> const& cluster_blocks) {
  int low = 1, high = machine.sms;
  while (low < high) {
    machine.sms = low + (high - low) / 2;
    if (prove_progress(plan, machine, cluster_blocks))
      high = machine.sms;
    else
      low = machine.sms + 1;
  }
  return high;
}

/// Launches beside each other.
SmClaim of_streams(Plan const& plan, MachineProfile const& machine, std::vector<int> const& cluster_blocks) {
  std::int64_t wait_kernels = 0, waiting = 0;
  for (auto const& launch : plan.launches) wait_kernels += launch.wait_kernel ? 1 : 0;
  // Of an earlier stage all blocks have places then, before any of a later one.
  if (machine.dispatches_in_launch_order &&
      wait_kernels + 1 == static_cast<std::int64_t>(plan.launches.size()))
    return {cut(wait_kernels, machine), cut(wait_kernels + 1, machine)};
  progress::Waits const waits(plan);
  for (int s = 0; s < static_cast<int>(plan.pipeline.stages.size()); ++s) waiting += waits.waiting_blocks(s);
  if (waiting + wait_kernels == 0) return {};
  return {cut(waiting + wait_kernels, machine), fewest_sms(plan, machine, cluster_blocks)};
}

}  // namespace

SmClaim sm_claim(Plan const& plan, MachineProfile const& machine, std::vector<int> const& cluster_blocks,
                 std::vector<bool> const& all_resident) {
  SmClaim result;
  auto const also = [&](SmClaim const& one) {
    result.held = std::max(result.held, one.held);
    result.needed = std::max(result.needed, one.needed);
  };
  // One group of launches runs at a time.
  for (auto const& group : groups_of(plan)) {
    for (int l = group.first; l < group.end; ++l) {
      auto const& launch = plan.launches[at(l)];
      bool const whole = !all_resident.empty() && all_resident[at(l)];
      if (launch.workers > 0 && (whole || !producers_come_first(part_of(plan, launch.first, launch.end()))))
        also(of_workers(plan, launch, machine));
    }
    if (group.end - group.first < 2 || plan.launches[at(group.end - 1)].start != LaunchStart::beside)
      continue;
    int const first = plan.launches[at(group.first)].first, end = plan.launches[at(group.end - 1)].end();
    std::vector<int> clusters;
    if (!cluster_blocks.empty())
      clusters.assign(cluster_blocks.begin() + first, cluster_blocks.begin() + end);
    also(of_streams(part_of(plan, first, end), machine, clusters));
  }
  return result;
}

bool fit_together(std::vector<SmClaim> const& claims, int sms) {
  std::int64_t held = 0;
  for (auto const& one : claims) held += one.held;
  return std::all_of(claims.begin(), claims.end(),
                     [&](SmClaim const& one) { return one.needed + held - one.held <= sms; });
}

}  // namespace tessera
