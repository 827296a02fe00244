// SPDX-License-Identifier: Apache-2.0
// Loaders; what computes is in role_compute.cpp.
#include "role_run.hpp"

#include <algorithm>

namespace tessera::simulation {
namespace {

/// A warp looks at as many semaphores as it has lanes.
Picoseconds looks_of(std::size_t tiles) { return static_cast<Picoseconds>((tiles + 31) / 32); }

/// Most that an SM has on its way, of the stage whose slots are the largest.
double in_flight_bytes(RoleLoop const& loop) {
  double bytes = 0;
  for (auto const& work : loop.work) bytes = std::max(bytes, work.slot_bytes);
  auto const most = [&](int in_flight) {
    return in_flight > 0 ? std::min(in_flight, loop.rings.slots) : loop.rings.slots;
  };
  return bytes * std::max(most(loop.rings.in_flight), most(loop.rings.in_flight_within));
}

}  // namespace

RoleRun::RoleRun(RoleLoop const& loop, RoleMachine const& machine)
    : loop_(loop),
      machine_(machine),
      tiles_(loop),
      loads_(queue_, machine, in_flight_bytes(loop),
             static_cast<std::size_t>(loop.plan.plan.launches.front().workers)),
      sms_(static_cast<std::size_t>(loop.plan.plan.launches.front().workers)) {
  auto dealt = dealt_tiles(loop);
  for (int s = 0; s < static_cast<int>(sms_.size()); ++s) {
    for (int role = 0; role < k_roles; ++role) {
      auto const added = queue_.add(2);
      if (s == 0 && role == 0) first_component_ = added;
    }
    auto& one = sm(s);
    one.tiles = std::move(dealt[static_cast<std::size_t>(s)]);
    one.early.resize(static_cast<std::size_t>(loop.rings.slots));
    one.late.resize(static_cast<std::size_t>(loop.rings.late_slots));
    std::int64_t slots = 0, late_slots = 0;
    auto& records = records_.emplace_back();
    for (auto const& tile : one.tiles) {
      one.first_slot.push_back(slots);
      one.first_late_slot.push_back(late_slots);
      slots += work(tile).slots;
      late_slots += late_slots_of(work(tile));
      records.push_back({});
      records.back().tile = tile;
    }
    one.first_slot.push_back(slots);
    one.first_late_slot.push_back(late_slots);
    one.since = picoseconds(machine.launch_ns);
    if (one.tiles.empty()) continue;
    records.front().ready = one.since;
    if (work(one.tiles.front()).slots == 0) one.wait = whole_input(one.tiles.front());
  }
}

bool RoleRun::run() {
  auto const start = picoseconds(machine_.launch_ns);
  for (int s = 0; s < static_cast<int>(sms_.size()); ++s)
    for (int role = 0; role < k_roles; ++role) queue_.wake(component(s, role), start);
  while (!queue_.empty()) {
    auto const now = queue_.next_time();
    auto const next = queue_.pop();
    if (loads_.owns(next)) {
      loads_.turn(next, now, [&](RoleLoad const& load) { landed(load, now); });
      continue;
    }
    int const s = (next - first_component_) / k_roles, role = (next - first_component_) % k_roles;
    if (role == k_compute) compute(s, now);
    if (role == k_early) load_early(s, now);
    if (role >= k_late) load_late(s, role - k_late, now);
  }
  return std::all_of(sms_.begin(), sms_.end(), [](Sm const& one) { return one.tile == one.tiles.size(); });
}

RoleWait RoleRun::whole_input(RoleTile const& tile) const {
  auto wait = tiles_.input(tile);
  RoleTiles::need(wait, 1, 1);
  return wait;
}

void RoleRun::landed(RoleLoad const& load, Picoseconds now) {
  auto& of = sm(load.sm);
  auto& slot = load.late ? late(of, load.slot) : early(of, load.slot);
  slot.full = true;
  slot.landed = now;
  if (!load.late) {
    of.bytes_in_flight -= load.bytes;
    ++of.full;
    load_early(load.sm, now);
  }
  if (of.doing == Sm::Doing::waiting) compute(load.sm, now);
}

// Slots are dealt to warps in turns. Each waits until its slot is free, and until the one has landed that is
// so many slots older as may be on their way.
bool RoleRun::may_issue(Sm const& of) const {
  auto const& rings = loop_.rings;
  if (of.issued - of.released >= rings.slots) return false;
  bool const begins = of.issued < of.first_slot[of.early_tile] + rings.slots;
  int const most = begins ? rings.in_flight : rings.in_flight_within;
  if (most <= 0 || most >= rings.slots) return true;
  auto const older = of.issued - most;
  return older < of.released || of.early[static_cast<std::size_t>(older) % of.early.size()].full;
}

void RoleRun::load_early(int s, Picoseconds now) {
  auto& of = sm(s);
  auto const warps = static_cast<std::int64_t>(machine_.early_warps);
  while (of.issued < of.first_slot.back()) {
    while (of.issued >= of.first_slot[of.early_tile + 1]) ++of.early_tile;
    if (!may_issue(of)) return;
    auto& until = of.issuing_until[static_cast<std::size_t>(of.issued % warps)];
    if (until > now) return queue_.wake(component(s, k_early), until);
    auto const& tile_work = work(of.tiles[of.early_tile]);
    until = now + picoseconds(machine_.load_issue_ns * tile_work.loads_per_slot);
    early(of, of.issued).full = false;
    of.bytes_in_flight += tile_work.slot_bytes;
    loads_.start_weights(now, picoseconds(machine_.load_ns), {s, false, of.issued++, tile_work.slot_bytes});
  }
}

void RoleRun::wake_late(int s, Picoseconds now) {
  auto& of = sm(s);
  for (int w = 0; w < k_most_late_warps; ++w)
    if (of.warps[static_cast<std::size_t>(w)].doing != LateWarp::Doing::waiting) load_late(s, w, now);
}

void RoleRun::load_late(int s, int w, Picoseconds now) {
  auto& of = sm(s);
  auto& warp = of.warps[static_cast<std::size_t>(w)];
  while (warp.tile < of.tiles.size()) {
    if (warp.free_at > now) return queue_.wake(component(s, k_late + w), warp.free_at);
    auto const& tile = of.tiles[warp.tile];
    auto const& tile_work = work(tile);
    int const slots = late_slots_of(tile_work);
    bool const by_word = tiles_.reads_words(tile);
    switch (warp.doing) {
      case LateWarp::Doing::beginning: {
        if (w >= tile_work.late_warps || w + warp.next >= slots) {
          ++warp.tile;
          warp.next = 0;
          continue;
        }
        // Looking earlier would be in vain, and the kernel does not.
        if (by_word && of.tile < warp.tile) return;
        warp.end = warp.next + tile_work.late_warps * (tile_work.late_slots_at_once - 1) + 1;
        while (w + warp.end > slots) warp.end -= tile_work.late_warps;
        warp.looked = warp.next == 0 ? 0 : warp.wait.tiles();
        if (warp.next == 0) warp.wait = tiles_.input(tile);
        RoleTiles::need(warp.wait, tile_work.whole_input ? slots : w + warp.end, slots);
        // Words come like all that is loaded: behind weights that are on their way.
        warp.first_look = now;
        if (by_word) warp.first_look += picoseconds(at_bytes(machine_.late_load_ns, of.bytes_in_flight));
        warp.doing = LateWarp::Doing::waiting;
        [[fallthrough]];
      }
      case LateWarp::Doing::waiting:
        if (!tiles_.look(warp.wait, component(s, k_late + w))) return;
        warp.doing = LateWarp::Doing::filling;
        warp.free_at = std::max({now, warp.wait.seen, warp.first_look});
        if (by_word)
          warp.free_at += picoseconds(machine_.token_copy_ns);
        else
          warp.free_at += picoseconds(machine_.look_ns) * looks_of(warp.wait.tiles() - warp.looked);
        continue;
      case LateWarp::Doing::filling: {
        auto const slot = of.first_late_slot[warp.tile] + w + warp.next;
        if (slot - of.late_released >= loop_.rings.late_slots) return;
        auto& ring = late(of, slot);
        ring.full = false;
        ring.results = warp.wait.seen;
        if (by_word) {
          ring.full = true;
          ring.landed = now;
        } else {
          warp.free_at = now + picoseconds(machine_.load_issue_ns);
          auto const latency = at_bytes(machine_.late_load_ns, of.bytes_in_flight);
          loads_.start_late(now, now + picoseconds(latency), {s, true, slot, tile_work.late_slot_bytes});
        }
        warp.next += tile_work.late_warps;
        if (warp.next >= warp.end) warp.doing = LateWarp::Doing::beginning;
        if (by_word && of.doing == Sm::Doing::waiting) queue_.wake(component(s, k_compute), now);
        continue;
      }
    }
  }
}

}  // namespace tessera::simulation
