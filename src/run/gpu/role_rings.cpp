// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "tessera/run/run_roles.hpp"

namespace tessera {

Expected<void> check_rings(RoleRings const& rings, int most_argument_bytes, SourceLine const& where) {
  auto const refused = [&](std::string message, std::string way_out) {
    return refuse({"E0564", Severity::error, where, std::move(message), {}, std::move(way_out)});
  };
  auto const ring = [&](char const* name, int slots, int most, int bytes) -> Expected<void> {
    if (slots < 0 || slots > most)
      return refused(fmt::format("the {} ring has {} slots, {} are possible", name, slots, most),
                     "use fewer and larger slots");
    if (bytes < 0 || bytes % 1024 != 0 || (slots > 0 && bytes == 0))
      return refused(fmt::format("a slot of the {} ring has {} bytes", name, bytes),
                     "use a multiple of 1024: loads that swizzle need that alignment");
    return {};
  };
  if (auto ok = ring("early", rings.slots, k_role_slots, rings.slot_bytes); !ok) return ok;
  if (auto ok = ring("late", rings.late_slots, k_role_late_slots, rings.late_slot_bytes); !ok) return ok;
  // A warp that loads must not come round to a slot that another has not yet filled. Operations with roles
  // have arguments, and loaders and computers that meet in both rings; tile functions need none.
  bool const has_roles = most_argument_bytes > 0;
  auto const filled = [&](char const* name, int slots, int warps) -> Expected<void> {
    if (slots < warps && (slots > 0 || has_roles))
      return refused(fmt::format("the {} ring has {} slots, {} warps fill it", name, slots, warps),
                     "use as many slots at least");
    return {};
  };
  if (auto ok = filled("early", rings.slots, k_early_warps); !ok) return ok;
  if (auto ok = filled("late", rings.late_slots, k_late_warps); !ok) return ok;
  if (int const least = std::min(rings.in_flight, rings.in_flight_within); least < 0)
    return refused(fmt::format("{} slots of the early ring may be on their way at once", least),
                   "ask for 1 or more, or 0: all");
  auto const bytes = 1LL * rings.slots * rings.slot_bytes + 1LL * rings.late_slots * rings.late_slot_bytes;
  constexpr long long most = 227 * 1024 - detail::k_role_fixed_bytes;
  if (bytes + rings.scratch_bytes > most)
    return refused(fmt::format("rings of {} bytes and {} beside them, {} are possible", bytes,
                               rings.scratch_bytes, most),
                   "use fewer or smaller slots");
  if (most_argument_bytes > k_role_argument_bytes)
    return refused(fmt::format("an operation has {} bytes of arguments, {} are possible", most_argument_bytes,
                               k_role_argument_bytes),
                   "keep the rest in device memory and its address in the arguments");
  return {};
}

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

DealtTables deal(LoopPlan const& plan, LoopTables const& tables, RoleOptions const& options) {
  std::vector<StageToDeal> stages;
  for (std::size_t s = 0; s < tables.stages.size(); ++s) {
    stages.push_back({tables.tables.stages[s].grid.tiles(), 1});
    if (!options.tile_bytes.empty())
      stages.back().bytes = options.tile_bytes[static_cast<std::size_t>(tables.stages[s].body_stage)];
  }
  if (options.dealing == Dealing::queue) return deal_as_queue(stages);
  auto const ahead = options.tile_bytes.empty() ? 0 : 1LL * options.rings.slots * options.rings.slot_bytes;
  return deal(stages, plan.plan.launches.front().workers, ahead);
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
