// SPDX-License-Identifier: Apache-2.0
#include "tessera/plan/check_rings.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tessera {

Expected<void> check_rings(RoleRings const& rings, int most_argument_bytes, SourceLine const& where,
                           int early_warps, int late_warps) {
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
  if (auto ok = filled("early", rings.slots, early_warps); !ok) return ok;
  if (auto ok = filled("late", rings.late_slots, late_warps); !ok) return ok;
  if (int const least = std::min(rings.in_flight, rings.in_flight_within); least < 0)
    return refused(fmt::format("{} slots of the early ring may be on their way at once", least),
                   "ask for 1 or more, or 0: all");
  if (rings.exchange_bytes < 0 || rings.exchange_bytes % 16 != 0)
    return refused(fmt::format("a room of {} bytes for what a cluster exchanges", rings.exchange_bytes),
                   "use a multiple of 16");
  auto const beside = rings.scratch_bytes + 1LL * k_cluster_exchanges * rings.exchange_bytes;
  auto const bytes = 1LL * rings.slots * rings.slot_bytes + 1LL * rings.late_slots * rings.late_slot_bytes;
  if (bytes + beside > k_role_ring_bytes)
    return refused(fmt::format("rings of {} bytes and {} beside them, {} are possible", bytes, beside,
                               k_role_ring_bytes),
                   "use fewer or smaller slots");
  if (most_argument_bytes > k_role_argument_bytes)
    return refused(fmt::format("an operation has {} bytes of arguments, {} are possible", most_argument_bytes,
                               k_role_argument_bytes),
                   "keep the rest in device memory and its address in the arguments");
  return {};
}

}  // namespace tessera
