// SPDX-License-Identifier: Apache-2.0
#include "progress_workers.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "progress_waits.hpp"
#include "progress_words.hpp"
#include "tessera/plan/progress.hpp"

namespace tessera::progress {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

}  // namespace

Expected<std::string> prove_workers(Plan const& plan, MachineProfile const& machine) {
  auto const& launch = plan.launches.front();
  auto const per_sm = occupancy(machine, worker_resources(plan.pipeline, launch));
  auto const capacity = std::int64_t{per_sm} * machine.sms;
  auto const& where = plan.pipeline.where;
  if (launch.workers > capacity)
    return refuse(
        refusal("E0302", where,
                fmt::format("{} workers of the persistent launch cannot be resident at once: {} holds {} "
                            "({} on each of {} SMs)",
                            launch.workers, machine.name, capacity, per_sm, machine.sms),
                fmt::format("use at most {} workers", capacity)));

  auto const& tickets = launch.tickets;
  if (tickets.empty())
    return fmt::format(
        "fused: {} resident at once ({} fit), and tickets go stage by stage, so every tile comes after "
        "those that it waits for",
        count_of(launch.workers, "worker"), capacity);

  Waits const waits(plan);
  Flow flow(waits);
  std::vector<Block> finished, stuck;
  std::int64_t most_waiting = 0, waiting = 0;
  for (std::size_t t = 0; t < tickets.size(); ++t) {
    auto const& ticket = tickets[t];
    Block const block{ticket.stage, ticket.position};
    finished.clear();
    flow.start(block, finished);
    waiting += 1 - static_cast<std::int64_t>(finished.size());
    stuck.push_back(block);
    most_waiting = std::max(most_waiting, waiting);
    if (waiting < launch.workers) continue;

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
                            launch.workers == 1 ? "the only worker is stuck"
                                                : fmt::format("all {} workers are stuck", launch.workers),
                            t, block_name(plan, stuck.front()), missing),
                "put a tile's producers before it in the tickets, or use more workers");
    return refuse(std::move(result));
  }
  if (most_waiting == 0)
    return fmt::format(
        "fused: {} resident at once ({} fit), and every ticket comes after those that it waits for",
        count_of(launch.workers, "worker"), capacity);
  return fmt::format(
      "fused: {} resident at once ({} fit), of which at most {} can wait at a time for later tickets",
      count_of(launch.workers, "worker"), capacity, most_waiting);
}

}  // namespace tessera::progress
