// SPDX-License-Identifier: Apache-2.0
// The warps of a launch with roles that compute.
#include <algorithm>

#include "role_run.hpp"

namespace tessera::simulation {

int late_slots_of(RoleWork const& work) {
  if (work.late_slot_bytes <= 0) return 0;
  return (work.slots + work.slots_per_late_slot - 1) / work.slots_per_late_slot;
}

void RoleRun::compute(int s, Picoseconds now) {
  auto& of = sm(s);
  if (of.tile == of.tiles.size()) return;
  switch (of.doing) {
    case Sm::Doing::waiting:
      if (work(of.tiles[of.tile]).slots > 0)
        begin_slot(s, now);
      else
        begin_tile_function(s, now);
      return;
    case Sm::Doing::multiplying: return end_slot(s, now);
    case Sm::Doing::ending:
      of.wait = tiles_.before_stores(of.tiles[of.tile]);
      of.doing = Sm::Doing::storing;
      [[fallthrough]];
    case Sm::Doing::storing: return store(s, now);
    case Sm::Doing::posting: return next_tile(s, now);
  }
}

void RoleRun::begin_tile_function(int s, Picoseconds now) {
  auto& of = sm(s);
  if (!tiles_.look(of.wait, component(s, k_compute))) return;
  if (of.wait.seen > now) return queue_.wake(component(s, k_compute), of.wait.seen);
  auto& made = record(s);
  made.results = now - of.since;
  made.begun = made.multiplied = now;
  made.full_slots = of.full;
  of.doing = Sm::Doing::ending;
  queue_.wake(component(s, k_compute), now + picoseconds(work(of.tiles[of.tile]).end_ns));
}

void RoleRun::begin_slot(int s, Picoseconds now) {
  auto& of = sm(s);
  auto const& tile_work = work(of.tiles[of.tile]);
  bool const has_late = late_slots_of(tile_work) > 0;
  auto const& weights = early(of, of.first_slot[of.tile] + of.slot);
  auto const& activations = late(of, of.first_late_slot[of.tile] + of.slot / tile_work.slots_per_late_slot);
  if (!weights.full || (has_late && !activations.full)) return;
  auto& made = record(s);
  auto const until = [&](Picoseconds from, Picoseconds met) {
    return has_late ? std::max(Picoseconds{0}, std::min(now, met) - from) : 0;
  };
  if (of.slot == 0) {
    made.begun = now;
    made.full_slots = of.full;
    made.results = until(of.since, activations.results);
    made.activations = until(of.since + made.results, activations.landed);
    made.weights = now - of.since - made.results - made.activations;
  } else {
    auto const for_activations = until(of.since, activations.landed);
    made.later_activations += for_activations;
    made.later_weights += now - of.since - for_activations;
  }
  bool const turns_late = has_late && of.slot % tile_work.slots_per_late_slot == 0;
  of.doing = Sm::Doing::multiplying;
  auto const takes = machine_.turn_ns + (turns_late ? machine_.late_turn_ns : 0) + tile_work.slot_ns;
  queue_.wake(component(s, k_compute), now + picoseconds(takes));
}

void RoleRun::end_slot(int s, Picoseconds now) {
  auto& of = sm(s);
  auto const& tile_work = work(of.tiles[of.tile]);
  early(of, of.released++).full = false;
  --of.full;
  ++of.slot;
  bool const is_last = of.slot == tile_work.slots;
  if (late_slots_of(tile_work) > 0 && (is_last || of.slot % tile_work.slots_per_late_slot == 0))
    late(of, of.late_released++).full = false;
  load_early(s, now);
  wake_late(s, now);
  of.since = now;
  if (!is_last) {
    of.doing = Sm::Doing::waiting;
    return begin_slot(s, now);
  }
  record(s).multiplied = now;
  of.doing = Sm::Doing::ending;
  queue_.wake(component(s, k_compute), now + picoseconds(tile_work.end_ns));
}

void RoleRun::store(int s, Picoseconds now) {
  auto& of = sm(s);
  if (!tiles_.look(of.wait, component(s, k_compute))) return;
  if (of.wait.seen > now) return queue_.wake(component(s, k_compute), of.wait.seen);
  auto const& tile = of.tiles[of.tile];
  auto& made = record(s);
  made.stored = now;
  made.posted = now + (tiles_.writes_words(tile.stage) ? 0 : picoseconds(machine_.post_ns));
  end_ = std::max(end_, made.posted);
  for (int const waiter : tiles_.complete(tile, made.posted + picoseconds(machine_.hop_ns)))
    queue_.wake(waiter, now);
  of.doing = Sm::Doing::posting;
  queue_.wake(component(s, k_compute), made.posted);
}

void RoleRun::next_tile(int s, Picoseconds now) {
  auto& of = sm(s);
  ++of.tile;
  of.slot = 0;
  of.since = now;
  of.doing = Sm::Doing::waiting;
  wake_late(s, now);
  if (of.tile == of.tiles.size()) return;
  record(s).ready = now;
  if (work(of.tiles[of.tile]).slots == 0) of.wait = whole_input(of.tiles[of.tile]);
  compute(s, now);
}

}  // namespace tessera::simulation
