// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "tessera/run/run_roles.hpp"

namespace tessera {

Expected<void> check_dealing(Dealing dealing, std::vector<long long> const& tile_bytes, std::size_t stages,
                             SourceLine const& where) {
  auto const refused = [&](std::string message, std::string way_out) {
    return refuse({"E0564", Severity::error, where, std::move(message), {}, std::move(way_out)});
  };
  if (tile_bytes.empty()) return {};
  if (dealing == Dealing::queue)
    return refused(
        fmt::format("bytes of tiles of {} stages for blocks that draw their tiles", tile_bytes.size()),
        "leave tile_bytes out, or take Dealing::lists");
  if (tile_bytes.size() != stages)
    return refused(
        fmt::format("bytes of tiles of {} stages; the loop's body has {}", tile_bytes.size(), stages),
        "give a number for each stage of the body, or none");
  for (std::size_t s = 0; s < stages; ++s)
    if (tile_bytes[s] < 0 || tile_bytes[s] > k_most_tile_bytes)
      return refused(fmt::format("a tile of stage {} of the body loads {} bytes", s, tile_bytes[s]),
                     fmt::format("give 0 to {}", k_most_tile_bytes));
  return {};
}

Expected<void> check_meeting(std::vector<int> const& meeting_stages, Dealing dealing, LoopPlan const& plan) {
  auto const refused = [&](std::string message, std::string way_out) {
    return refuse(
        {"E0564", Severity::error, plan.loop.body.where, std::move(message), {}, std::move(way_out)});
  };
  auto const& stages = plan.loop.body.stages;
  int const workers = plan.plan.launches.front().workers;
  for (int const s : meeting_stages) {
    if (s < 0 || static_cast<std::size_t>(s) >= stages.size())
      return refused(fmt::format("tiles of stage {} wait for one another; the loop's body has {} stages", s,
                                 stages.size()),
                     "give numbers of stages, from 0 on");
    auto const& stage = stages[static_cast<std::size_t>(s)];
    if (dealing == Dealing::queue)
      return refused(fmt::format("tiles of {} wait for one another, and blocks draw their tiles", stage.name),
                     "take Dealing::lists");
    if (stage.tiles() > workers)
      return refused(fmt::format("{} tiles of {} wait for one another, by {} workers", stage.tiles(),
                                 stage.name, workers),
                     "cut the stage into as many tiles as there are workers, or fewer");
  }
  return {};
}

Expected<void> check_missed(std::optional<MissedTile> const& missed, Dealing dealing, LoopPlan const& plan) {
  if (!missed) return {};
  constexpr int k_iterations = 1024;
  auto const& stages = plan.loop.body.stages;
  bool const there = missed->stage >= 0 && static_cast<std::size_t>(missed->stage) < stages.size() &&
                     missed->tile >= 0 &&
                     missed->tile < stages[static_cast<std::size_t>(missed->stage)].tiles() &&
                     missed->iteration >= 0 && missed->iteration < k_iterations;
  if (there && dealing == Dealing::lists) return {};
  return refuse({"E0564",
                 Severity::error,
                 plan.loop.body.where,
                 fmt::format("tile {} of stage {} in iteration {} is to be missed", missed->tile,
                             missed->stage, missed->iteration),
                 {},
                 fmt::format("name a tile of the loop's body in iterations 0 to {}, and take Dealing::lists",
                             k_iterations - 1)});
}

Expected<void> check_cluster(int cluster_blocks, Dealing dealing, int workers, SourceLine const& where) {
  auto const refused = [&](std::string message, std::string way_out) {
    return refuse({"E0564", Severity::error, where, std::move(message), {}, std::move(way_out)});
  };
  constexpr int most = 8;  // without an attribute of its own
  if (cluster_blocks < 1 || cluster_blocks > most)
    return refused(fmt::format("a launch in clusters of {} blocks", cluster_blocks),
                   fmt::format("ask for 1 to {}", most));
  if (cluster_blocks == 1) return {};
  if (dealing == Dealing::queue)
    return refused(fmt::format("clusters of {} blocks that draw their tiles", cluster_blocks),
                   "take Dealing::lists: blocks that exchange data compute neighbouring tiles at a time");
  if (workers % cluster_blocks != 0)
    return refused(fmt::format("clusters of {} blocks of {} workers", cluster_blocks, workers),
                   fmt::format("plan the loop for a multiple of {} workers", cluster_blocks));
  return {};
}

Expected<void> check_neighbours(DealtTables const& dealt, int cluster_blocks, SourceLine const& where) {
  if (cluster_blocks == 1) return {};
  auto const pitch = static_cast<std::size_t>(dealt.pitch),
             of_cluster = static_cast<std::size_t>(cluster_blocks);
  for (std::size_t block = 0; block < dealt.tiles.size() / pitch; ++block) {
    auto const rank = static_cast<int>(block % of_cluster);
    auto const first = (block - block % of_cluster) * pitch;
    for (std::size_t i = 0; i < pitch; ++i) {
      auto const &one = dealt.tiles[block * pitch + i], &leader = dealt.tiles[first + i];
      bool const ended = one.tile < 0 && leader.tile < 0;
      if (ended || (one.period == leader.period && one.stage == leader.stage &&
                    leader.tile % cluster_blocks == 0 && one.tile == leader.tile + rank))
        continue;
      return refuse(
          {"E0564",
           Severity::error,
           where,
           fmt::format("blocks of a cluster of {} compute tile {} of stage {} and tile {} of stage {} "
                       "at a time",
                       cluster_blocks, leader.tile, leader.stage, one.tile, one.stage),
           {},
           "give every stage as many tiles as there are workers, or take no clusters"});
    }
  }
  return {};
}

DealtTables deal(LoopPlan const& plan, LoopTables const& tables, RoleOptions const& options) {
  std::vector<StageToDeal> stages;
  for (std::size_t s = 0; s < tables.stages.size(); ++s) {
    stages.push_back({tables.tables.stages[s].grid.tiles(), 1});
    if (!options.tile_bytes.empty())
      stages.back().bytes = options.tile_bytes[static_cast<std::size_t>(tables.stages[s].body_stage)];
    stages.back().meet = std::find(options.meeting_stages.begin(), options.meeting_stages.end(),
                                   tables.stages[s].body_stage) != options.meeting_stages.end();
  }
  if (options.dealing == Dealing::queue) return deal_as_queue(stages);
  auto const ahead = options.tile_bytes.empty() ? 0 : 1LL * options.rings.slots * options.rings.slot_bytes;
  auto dealt = deal(stages, plan.plan.launches.front().workers, ahead);
  if (!options.missed) return dealt;
  auto const& missed = *options.missed;
  int const body = static_cast<int>(plan.loop.body.stages.size());
  return without(dealt, {missed.iteration / plan.period, missed.iteration % plan.period * body + missed.stage,
                         missed.tile});
}

Expected<void> check_persistent(LoopPlan const& plan) {
  if (plan.is_persistent()) return {};
  return refuse(
      {"E0510",
       Severity::error,
       plan.loop.body.where,
       fmt::format("loop \"{}\" is planned as launches that overlap; roles need one persistent launch",
                   plan.loop.body.name),
       {},
       "plan it with plan_loop()"});
}

}  // namespace tessera
