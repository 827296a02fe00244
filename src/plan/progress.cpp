// SPDX-License-Identifier: Apache-2.0
#include "tessera/plan/progress.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "progress_kernels.hpp"
#include "progress_waits.hpp"
#include "progress_words.hpp"
#include "progress_workers.hpp"
#include "sm_room.hpp"
#include "tessera/plan/launch_faults.hpp"
#include "tessera/plan/parts.hpp"

namespace tessera {
namespace {

using progress::count_of;
using progress::refusal;
using progress::Setting;
using progress::Waits;

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

constexpr std::int64_t k_max_states = 200'000;

/// What one block asks of the resource that runs out first.
std::string shortage(MachineProfile const& machine, Resources const& resources) {
  auto const limiter = occupancy_limiter(machine, resources);
  auto const use = room_of(machine, resources);
  if (limiter == "shared memory" && resources.shared_bytes > machine.shared_bytes_per_block)
    return fmt::format("a block needs {} bytes of shared memory; {} gives one block at most {}",
                       resources.shared_bytes, machine.name, machine.shared_bytes_per_block);
  if (limiter == "shared memory")
    return fmt::format(
        "a block needs {} bytes of shared memory with what the system takes; an SM of {} has {}", use.shared,
        machine.name, machine.shared_bytes_per_sm);
  if (limiter == "registers")
    return fmt::format("a block of {} threads with {} registers each needs {} registers; an SM of {} has {}",
                       resources.threads, resources.registers_per_thread, use.registers, machine.name,
                       machine.registers_per_sm);
  if (limiter == "threads")
    return fmt::format("a block needs {} threads; an SM of {} has {}", use.threads, machine.name,
                       machine.threads_per_sm);
  return fmt::format("an SM of {} has no block slot", machine.name);
}

/// Semaphores count every post of an earlier stage, so a wait can always be met once that stage is done;
/// one on a stage that starts later may never be.
Expected<void> prove_waits_go_back(Plan const& plan) {
  Diagnostics problems;
  auto const look = [&](int waiting, int set, SourceLine const& where) {
    if (set < 0 || plan.semaphores[at(set)].producer < waiting) return;
    auto const& stages = plan.pipeline.stages;
    problems.push_back(
        refusal("E0302", where,
                fmt::format("{} waits for semaphores that {} posts to, which does not come before it",
                            stages[at(waiting)].name, stages[at(plan.semaphores[at(set)].producer)].name),
                "a stage can wait for earlier stages only"));
  };
  for (auto const& planned : plan.dependences) {
    auto const& dependence = plan.pipeline.dependences[at(planned.dependence)];
    look(dependence.consumer, planned.semaphore_set, dependence.where);
  }
  for (auto const& edge : plan.reuse_edges)
    look(edge.writer, edge.semaphore_set, plan.pipeline.stages[at(edge.writer)].where);
  if (!problems.empty()) return tl::make_unexpected(std::move(problems));
  return {};
}

char const* const k_stream_order =
    "stream order: a kernel starts only when the one before it is complete, so no block holds an SM while "
    "another one "
    "waits for room";

std::int64_t blocks_of(Plan const& plan, Launch const& launch) {
  if (launch.workers > 0) return launch.workers;
  auto const blocks = plan.pipeline.stages[at(launch.first)].blocks();
  auto const persistent = plan.stages[at(launch.first)].persistent_blocks;
  return persistent > 0 ? std::min<std::int64_t>(persistent, blocks) : blocks;
}
std::string name_of(Plan const& plan, Launch const& launch) {
  if (launch.workers == 0 || launch.stages == 1) return plan.pipeline.stages[at(launch.first)].name;
  return fmt::format("the persistent launch of {} to {}", plan.pipeline.stages[at(launch.first)].name,
                     plan.pipeline.stages[at(launch.end() - 1)].name);
}

/// Launches that start early one after the other, persistent ones among them. What a persistent launch waits
/// for is itself or has started; and what comes after it starts only when all of its workers are there, so
/// that they are resident at once as if they were alone.
Expected<std::string> prove_chain(Plan const& plan, MachineProfile const& machine) {
  std::string text;
  if (plan.launches.size() > 1) {
    std::int64_t later = 0;
    for (std::size_t l = 1; l < plan.launches.size(); ++l) later += blocks_of(plan, plan.launches[l]);
    auto const& before = plan.launches[plan.launches.size() - 2];
    auto const blocks = blocks_of(plan, before);
    text = fmt::format(
        "PDL: a block of {} starts only when {} of {} {} started, as along the whole chain, so none of the "
        "{} that "
        "may wait can keep an earlier one off an SM",
        name_of(plan, plan.launches.back()),
        blocks == 1 ? "the only block" : fmt::format("all {} blocks", blocks), name_of(plan, before),
        blocks == 1 ? "has" : "have", count_of(later, "block"));
  } else if (plan.launches.front().start == LaunchStart::early) {
    text = fmt::format("PDL: a block of {} starts only when all blocks of the launch before have started",
                       name_of(plan, plan.launches.front()));
  }
  for (auto const& launch : plan.launches) {
    if (launch.workers == 0) continue;
    auto proof = progress::prove_workers(part_of(plan, launch.first, launch.end()), machine);
    if (!proof) return proof;
    text += (text.empty() ? "" : "; ") + *proof;
  }
  return text.empty() ? k_stream_order : text;
}

/// Why no schedule keeps a kernel off all SMs, in numbers where one other kernel decides.
std::string margin(Setting const& setting) {
  std::int64_t waiting = 0;
  for (int k = 0; k < static_cast<int>(setting.kernels.size()); ++k) {
    auto const stuck = progress::stickable(setting, k);
    auto const& kernel = setting.kernels[at(k)];
    std::int64_t blocks = 0;
    for (auto const& one : stuck) blocks += one.blocks;
    waiting = std::max(waiting, blocks);
    if (stuck.size() != 1 || kernel.is_wait || setting.kernels[at(stuck[0].kernel)].is_wait ||
        stuck[0].kernel == k)
      continue;
    auto const& stages = setting.plan.pipeline.stages;
    if (kernel.cluster > 1) continue;
    auto const each = progress::blocks_to_keep_out(setting, k, stuck[0].kernel);
    auto const& later = stages[at(setting.kernels[at(stuck[0].kernel)].stage)].name;
    auto const& kept_out = stages[at(kernel.stage)].name;
    if (each == 0)
      return fmt::format("the {} that may wait fit on the SMs at once and leave room for {} on each",
                         count_of(stuck[0].blocks, "block") + " of " + later, kept_out);
    return fmt::format("at most {} of {} wait, and it takes {} ({} on each of {}) to keep {} out",
                       count_of(stuck[0].blocks, "block"), later, each * setting.sms, each,
                       count_of(setting.sms, "SM"), kept_out);
  }
  if (waiting == 0) return "no block ever waits for one that may not have started";
  return fmt::format("the {} that may wait cannot keep a kernel off {}", count_of(waiting, "block"),
                     setting.sms == 1 ? "the only SM" : fmt::format("all {} SMs", setting.sms));
}

/// A persistent block holds its place from tile to tile, which the count of blocks that may wait leaves out.
Expected<void> prove_one_tile_each(Plan const& plan) {
  for (auto const& launch : plan.launches) {
    auto const& stage = plan.pipeline.stages[at(launch.first)];
    if (blocks_of(plan, launch) == stage.blocks()) continue;
    return refuse(
        refusal("E0302", stage.where,
                fmt::format("{} runs as a persistent grid of {} blocks beside other launches, and that "
                            "those find room could not be proved",
                            stage.name, blocks_of(plan, launch)),
                "give one block to each tile, or start the launches early"));
  }
  return {};
}

Expected<std::string> prove_wait_kernels(Plan const& plan, MachineProfile const& machine,
                                         std::vector<int> const& cluster_blocks) {
  if (auto const fine = prove_one_tile_each(plan); !fine) return tl::make_unexpected(fine.error());
  Waits const waits(plan);
  Setting const setting(waits, machine, cluster_blocks);
  bool in_order = setting.in_order;
  for (std::size_t s = 1; s < setting.wait_kernel_of.size(); ++s)
    in_order = in_order && setting.wait_kernel_of[s] >= 0;

  bool room_for_all = true;
  for (int k = 0; k < static_cast<int>(setting.kernels.size()) && room_for_all; ++k)
    room_for_all = !progress::may_cover(setting, k, progress::stickable(setting, k));
  if (room_for_all && in_order && setting.kernels.size() > 1)
    return fmt::format(
        "wait kernels: {} becomes ready only when {} has started, and {} places all blocks of the older "
        "kernel "
        "first, so no block waits for one that has no room",
        plan.pipeline.stages.back().name, plan.pipeline.stages[plan.pipeline.stages.size() - 2].name,
        machine.name);
  if (room_for_all) return "any order of the kernels: " + margin(setting);

  if (auto const stuck = progress::attack(setting)) return refuse(progress::describe(setting, *stuck));
  // The search places single blocks.
  for (auto const& kernel : setting.kernels)
    if (kernel.cluster > 1)
      return refuse(refusal(
          "E0302", plan.pipeline.stages[at(kernel.stage)].where,
          fmt::format("{} starts in clusters of {}, which need room for all of their blocks in one part of "
                      "the GPU, and that blocks that wait always leave it could not be proved",
                      plan.pipeline.stages[at(kernel.stage)].name, kernel.cluster),
          "give every later stage a wait kernel, or use PDL or one fused launch"));
  auto const verdict = progress::search(setting, k_max_states);
  if (verdict.stuck) return refuse(progress::describe(setting, *verdict.stuck));
  if (verdict.complete)
    return std::string("any order of the kernels: every placement of the blocks was tried, and all finish");
  auto result =
      refusal("E0302", plan.pipeline.where,
              fmt::format("blocks of {} kernels may be placed in any order on {} SMs, and that they always "
                          "leave room could not be proved",
                          plan.pipeline.stages.size(), machine.sms),
              "give every later stage a wait kernel, or use PDL or one fused launch");
  return refuse(std::move(result));
}

/// Launches that agree with the pipeline, and something that keeps every edge.
Expected<void> prove_kept(Plan const& plan) {
  Diagnostics problems;
  auto const& pipeline = plan.pipeline;
  for (auto const& fault : launch_faults(plan)) {
    SourceLine where = pipeline.where;
    if (fault.about == LaunchFault::About::dependence) where = pipeline.dependences[at(fault.index)].where;
    if (fault.about == LaunchFault::About::reuse_edge)
      where = pipeline.stages[at(plan.reuse_edges[at(fault.index)].writer)].where;
    problems.push_back(refusal("E0302", where, fault.message, fault.way_out));
  }
  if (!problems.empty()) return tl::make_unexpected(std::move(problems));
  return {};
}

Expected<std::string> prove_group(Plan const& plan, MachineProfile const& machine,
                                  std::vector<int> const& cluster_blocks) {
  if (plan.launches.size() > 1 && plan.launches.back().start == LaunchStart::beside)
    return prove_wait_kernels(plan, machine, cluster_blocks);
  return prove_chain(plan, machine);
}

/// "gemm1 to gemm3".
std::string stages_text(Plan const& plan) {
  auto const& stages = plan.pipeline.stages;
  if (stages.size() == 1) return stages.front().name;
  return fmt::format("{} to {}", stages.front().name, stages.back().name);
}

}  // namespace

Resources worker_resources(Pipeline const& pipeline, Launch const& launch) {
  Resources result{1, 1, 0};
  for (int s = launch.first; s < launch.end(); ++s) {
    auto const& resources = pipeline.stages[at(s)].resources;
    result.threads = std::max(result.threads, resources.threads);
    result.registers_per_thread = std::max(result.registers_per_thread, resources.registers_per_thread);
    result.shared_bytes = std::max(result.shared_bytes, resources.shared_bytes);
  }
  return result;
}

Expected<void> prove_residency(Plan const& plan, MachineProfile const& machine) {
  Diagnostics problems;
  for (auto const& stage : plan.pipeline.stages)
    if (occupancy(machine, stage.resources) < 1)
      problems.push_back(
          refusal("E0301", stage.where,
                  fmt::format("{} does not fit on an SM: {}", stage.name, shortage(machine, stage.resources)),
                  "choose a smaller tile or fewer pipeline stages for this kernel"));
  if (!problems.empty()) return tl::make_unexpected(std::move(problems));
  for (auto const& launch : plan.launches) {
    auto const most = worker_resources(plan.pipeline, launch);
    if (launch.workers == 0 || occupancy(machine, most) > 0) continue;
    problems.push_back(refusal(
        "E0301", plan.pipeline.where,
        fmt::format(
            "a fused launch does not fit on an SM, since each of its blocks needs the most that any stage "
            "needs: {}",
            shortage(machine, most)),
        "choose smaller tiles, or a mechanism with a kernel for each stage"));
  }
  if (!problems.empty()) return tl::make_unexpected(std::move(problems));
  return {};
}

Expected<std::string> prove_progress(Plan const& plan, MachineProfile const& machine,
                                     std::vector<int> const& cluster_blocks) {
  if (machine.sms < 1)
    return refuse(refusal("E0301", plan.pipeline.where, fmt::format("{} has no SMs", machine.name),
                          "the machine profile lacks \"sms\""));
  if (auto const kept = prove_kept(plan); !kept) return tl::make_unexpected(kept.error());
  if (auto const resident = prove_residency(plan, machine); !resident)
    return tl::make_unexpected(resident.error());
  if (auto const back = prove_waits_go_back(plan); !back) return tl::make_unexpected(back.error());
  auto const groups = groups_of(plan);
  if (groups.size() == 1) return prove_group(plan, machine, cluster_blocks);
  std::string text;
  for (auto const& group : groups) {
    int const first = plan.launches[at(group.first)].first, end = plan.launches[at(group.end - 1)].end();
    auto const part = part_of(plan, first, end);
    std::vector<int> clusters;
    if (!cluster_blocks.empty())
      clusters.assign(cluster_blocks.begin() + first, cluster_blocks.begin() + end);
    auto proof = prove_group(part, machine, clusters);
    if (!proof) return proof;
    if (*proof != k_stream_order) text += fmt::format("; {}: {}", stages_text(part), *proof);
  }
  if (text.empty()) return std::string(k_stream_order);
  return fmt::format("{} groups of launches, each complete before the next starts{}", groups.size(), text);
}

}  // namespace tessera
