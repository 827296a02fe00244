// SPDX-License-Identifier: Apache-2.0
#include "tessera/plan/progress.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "progress_kernels.hpp"
#include "progress_waits.hpp"
#include "sm_room.hpp"

namespace tessera {
namespace {

using progress::Block;
using progress::Setting;
using progress::Waits;

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

constexpr std::int64_t k_max_states = 50'000;

Diagnostic refusal(char const* code, SourceLine where, std::string message, std::string suggestion) {
  Diagnostic result;
  result.code = code;
  result.where = std::move(where);
  result.message = std::move(message);
  result.suggestion = std::move(suggestion);
  return result;
}

std::string count_of(std::int64_t count, char const* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string block_name(Plan const& plan, Block block) {
  auto const& stage = plan.pipeline.stages[at(block.stage)];
  auto const work = block_work(stage, plan.stages[at(block.stage)], block.index);
  auto text = tile_name(stage, work.tile);
  if (stage.splits > 1) text += fmt::format(" split {}", work.split);
  return text;
}

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
  if (uses_semaphores(plan.mechanism)) {
    for (auto const& planned : plan.dependences) {
      auto const& dependence = plan.pipeline.dependences[at(planned.dependence)];
      look(dependence.consumer, planned.semaphore_set, dependence.where);
    }
    for (auto const& edge : plan.reuse_edges)
      look(edge.writer, edge.semaphore_set, plan.pipeline.stages[at(edge.writer)].where);
  }
  if (!problems.empty()) return tl::make_unexpected(std::move(problems));
  return {};
}

Expected<std::string> prove_one_stream(Plan const& plan) {
  auto const& stages = plan.pipeline.stages;
  if (plan.mechanism == Mechanism::stream_order || stages.size() < 2)
    return std::string(
        "stream order: a kernel starts only when the one before it is complete, so no block "
        "holds an SM while another one waits for room");
  std::int64_t later = 0;
  for (std::size_t s = 1; s < stages.size(); ++s) later += stages[s].blocks();
  auto const& before = stages[stages.size() - 2];
  return fmt::format(
      "PDL: a block of {} starts only when {} of {} {} started, as along the whole chain, so none of the {} "
      "that may "
      "wait can keep an earlier one off an SM",
      stages.back().name,
      before.blocks() == 1 ? "the only block" : fmt::format("all {} blocks", before.blocks()), before.name,
      before.blocks() == 1 ? "has" : "have", count_of(later, "block"));
}

Expected<std::string> prove_fused(Plan const& plan, MachineProfile const& machine) {
  auto const per_sm = occupancy(machine, fused_resources(plan.pipeline));
  auto const capacity = std::int64_t{per_sm} * machine.sms;
  auto const& where = plan.pipeline.where;
  if (plan.workers < 1)
    return refuse(refusal("E0302", where, fmt::format("the persistent launch has {} workers", plan.workers),
                          fmt::format("use 1 to {} workers", capacity)));
  if (plan.workers > capacity)
    return refuse(
        refusal("E0302", where,
                fmt::format("{} workers of the persistent launch cannot be resident at once: {} holds {} "
                            "({} on each of {} SMs)",
                            plan.workers, machine.name, capacity, per_sm, machine.sms),
                fmt::format("use at most {} workers", capacity)));

  auto const& tickets = plan.tickets;
  if (tickets.empty())
    return fmt::format(
        "fused: {} resident at once ({} fit), and tickets go stage by stage, so every tile comes after "
        "those that it waits for",
        count_of(plan.workers, "worker"), capacity);

  Waits const waits(plan);
  progress::Flow flow(waits);
  std::vector<Block> finished, stuck;
  std::int64_t most_waiting = 0, waiting = 0;
  for (std::size_t t = 0; t < tickets.size(); ++t) {
    auto const& ticket = tickets[t];
    Block const block{ticket.stage, ticket.position};
    if (ticket.stage < 0 || at(ticket.stage) >= plan.pipeline.stages.size() || ticket.position < 0 ||
        ticket.position >= plan.pipeline.stages[at(ticket.stage)].blocks())
      return refuse(refusal("E0302", where, fmt::format("ticket {} names no block", t),
                            "a ticket is a stage and a block number of that stage"));
    if (flow.is_started(block))
      return refuse(refusal("E0302", where, fmt::format("ticket {} repeats {}", t, block_name(plan, block)),
                            "every block has one ticket"));
    finished.clear();
    flow.start(block, finished);
    waiting += 1 - static_cast<std::int64_t>(finished.size());
    stuck.push_back(block);
    most_waiting = std::max(most_waiting, waiting);
    if (waiting < plan.workers) continue;

    std::erase_if(stuck, [&](Block one) { return flow.is_finished(one); });
    auto const need = flow.unmet(stuck.front());
    std::string missing;
    for (auto rest = t + 1; rest < tickets.size() && missing.empty(); ++rest) {
      Block const other{tickets[rest].stage, tickets[rest].position};
      auto const& stage = plan.pipeline.stages[at(other.stage)];
      auto const posts =
          posted_by(plan, other.stage, block_work(stage, plan.stages[at(other.stage)], other.index).tile);
      if (std::find(posts.begin(), posts.end(), need.semaphore) != posts.end())
        missing = fmt::format("{}, which has the later ticket {}", block_name(plan, other), rest);
    }
    if (missing.empty()) missing = "tiles that wait themselves";
    auto result =
        refusal("E0302", plan.pipeline.stages[at(stuck.front().stage)].where,
                fmt::format("{} after ticket {}: {} waits for {}",
                            plan.workers == 1 ? "the only worker is stuck"
                                              : fmt::format("all {} workers are stuck", plan.workers),
                            t, block_name(plan, stuck.front()), missing),
                "put a tile's producers before it in the tickets, or use more workers");
    return refuse(std::move(result));
  }
  if (!flow.all_finished()) {
    for (int s = 0; s < static_cast<int>(plan.pipeline.stages.size()); ++s)
      for (std::int64_t b = 0; b < plan.pipeline.stages[at(s)].blocks(); ++b)
        if (!flow.is_started({s, b}))
          return refuse(refusal("E0302", where, fmt::format("no ticket names {}", block_name(plan, {s, b})),
                                "every block has one ticket"));
  }
  if (most_waiting == 0)
    return fmt::format(
        "fused: {} resident at once ({} fit), and every ticket comes after those that it waits for",
        count_of(plan.workers, "worker"), capacity);
  return fmt::format(
      "fused: {} resident at once ({} fit), of which at most {} can wait at a time for later tickets",
      count_of(plan.workers, "worker"), capacity, most_waiting);
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

Expected<std::string> prove_wait_kernels(Plan const& plan, MachineProfile const& machine) {
  Waits const waits(plan);
  Setting const setting(waits, machine);
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

}  // namespace

Resources fused_resources(Pipeline const& pipeline) {
  Resources result{1, 1, 0};
  for (auto const& stage : pipeline.stages) {
    result.threads = std::max(result.threads, stage.resources.threads);
    result.registers_per_thread = std::max(result.registers_per_thread, stage.resources.registers_per_thread);
    result.shared_bytes = std::max(result.shared_bytes, stage.resources.shared_bytes);
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
  auto const most = fused_resources(plan.pipeline);
  if (problems.empty() && plan.mechanism == Mechanism::fused && occupancy(machine, most) < 1)
    problems.push_back(refusal(
        "E0301", plan.pipeline.where,
        fmt::format(
            "a fused launch does not fit on an SM, since each of its blocks needs the most that any stage "
            "needs: {}",
            shortage(machine, most)),
        "choose smaller tiles, or a mechanism with a kernel for each stage"));
  if (!problems.empty()) return tl::make_unexpected(std::move(problems));
  return {};
}

Expected<std::string> prove_progress(Plan const& plan, MachineProfile const& machine) {
  if (machine.sms < 1)
    return refuse(refusal("E0301", plan.pipeline.where, fmt::format("{} has no SMs", machine.name),
                          "the machine profile lacks \"sms\""));
  if (auto const resident = prove_residency(plan, machine); !resident)
    return tl::make_unexpected(resident.error());
  if (auto const back = prove_waits_go_back(plan); !back) return tl::make_unexpected(back.error());
  switch (plan.mechanism) {
    case Mechanism::wait_kernel: return prove_wait_kernels(plan, machine);
    case Mechanism::fused: return prove_fused(plan, machine);
    default: return prove_one_stream(plan);
  }
}

}  // namespace tessera
