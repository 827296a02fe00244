// SPDX-License-Identifier: Apache-2.0
#include "tessera/simulate/role_loop.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "role_run.hpp"
#include "tessera/plan/check_rings.hpp"
#include "tessera/plan/deal.hpp"

namespace tessera {
namespace {

using simulation::Picoseconds;
using simulation::RoleRecord;
using Records = std::vector<std::vector<RoleRecord>>;

constexpr double k_most_steps = 3e7;  ///< some 50 ns each: two seconds
constexpr double k_most_tiles = 2e6;
constexpr double k_most_ns = 1e9;
constexpr double k_least_gbps = 1e-3;
constexpr double k_longest_ns = 4e15;  ///< half of what picoseconds count in 64 bits
constexpr int k_most_slots = 4096;     ///< of activations, looked for together

double ns(Picoseconds time) { return static_cast<double>(time) / 1000; }

tl::unexpected<Diagnostics> cannot(RoleLoop const& loop, std::string message, std::string way_out) {
  return refuse(
      {"E0506", Severity::error, loop.plan.loop.body.where, std::move(message), {}, std::move(way_out)});
}

Expected<void> check_work(RoleLoop const& loop) {
  auto const& body = loop.plan.loop.body;
  if (loop.work.size() != body.stages.size())
    return cannot(loop,
                  fmt::format("loop \"{}\" has {} stages, and there is work for {}", body.name,
                              body.stages.size(), loop.work.size()),
                  "say what a tile of each stage of the body does");
  auto const in = [](double value, double least, double most) { return value >= least && value <= most; };
  for (std::size_t s = 0; s < loop.work.size(); ++s) {
    auto const& w = loop.work[s];
    bool const counts = w.slots >= 0 && in(w.loads_per_slot, 1, 1000) && w.slots_per_late_slot >= 1 &&
                        in(w.late_warps, 1, simulation::k_most_late_warps) &&
                        in(w.late_slots_at_once, 1, k_most_slots);
    bool const sizes = in(w.slot_bytes, w.slots > 0 ? 1 : 0, 1e9) && in(w.late_slot_bytes, 0, 1e9);
    if (!counts || !sizes || !in(w.slot_ns, 0, k_most_ns) || !in(w.end_ns, 0, k_most_ns))
      return cannot(
          loop, fmt::format("the work of stage {} has a number that no tile can have", body.stages[s].name),
          "give slots of 1 byte or more, 1 load or more to a slot, 1 to 8 warps, times from 0 to 1e9 ns");
    auto const reads = [&](Dependence const& one) { return one.consumer == static_cast<int>(s); };
    bool const waits = std::any_of(body.dependences.begin(), body.dependences.end(), reads) ||
                       std::any_of(loop.plan.loop.carried.begin(), loop.plan.loop.carried.end(),
                                   [&](CarriedDependence const& one) { return reads(one.dependence); });
    if (waits && w.slots > 0 && w.late_slot_bytes == 0)
      return cannot(
          loop,
          fmt::format("stage {} reads what stages compute, and loads 0 bytes of it", body.stages[s].name),
          "give late_slot_bytes");
  }
  return {};
}

Expected<void> check_tile_bytes(RoleLoop const& loop) {
  auto const& bytes = loop.tile_bytes;
  bool const all = std::all_of(bytes.begin(), bytes.end(),
                               [](long long one) { return one >= 0 && one <= k_most_tile_bytes; });
  if (all && (bytes.empty() || bytes.size() == loop.work.size())) return {};
  return cannot(
      loop,
      all ? fmt::format("bytes of tiles of {} stages; the loop's body has {}", bytes.size(), loop.work.size())
          : "bytes by which tiles are dealt that no tile can load",
      fmt::format("give a number from 0 to {} for each stage of the body, or none", k_most_tile_bytes));
}

/// A machine and work may be given other warps than the kernel has.
Expected<void> check_rings(RoleLoop const& loop, RoleMachine const& machine) {
  auto const& rings = loop.rings;
  auto const least = simulation::least_bytes(loop);
  auto const bytes = [](long long loaded) { return static_cast<int>(std::max(loaded, 1024LL)); };
  bool has_roles = false;
  int late_warps = k_late_warps;
  for (auto const& w : loop.work) {
    has_roles = has_roles || w.slots > 0;
    late_warps = std::max(late_warps, w.late_warps);
  }
  int const argument_bytes = has_roles ? 1 : 0;  // how many they are is not asked here
  return tessera::check_rings({rings.slots, bytes(least.slot), rings.in_flight, rings.in_flight_within,
                               rings.late_slots, bytes(least.late_slot), 0},
                              argument_bytes, loop.plan.loop.body.where,
                              static_cast<int>(machine.early_warps), late_warps);
}

Expected<void> check_machine(RoleLoop const& loop, RoleMachine const& machine) {
  for (auto const& figure : role_figures()) {
    auto const value = machine.*figure.member;
    bool const rate = figure.unit != "ns";
    bool const bandwidth = figure.unit == "1e9 byte/s";
    if (!std::isfinite(value) || value < (bandwidth ? k_least_gbps : 0) || (rate && value <= 0) ||
        value > k_most_ns)
      return cannot(loop, fmt::format("{} is {} {}", figure.name, value, figure.unit),
                    "give what a machine can have");
  }
  if (machine.early_warps < 1 || machine.early_warps > simulation::k_most_early_warps ||
      machine.early_warps != std::floor(machine.early_warps))
    return cannot(loop, fmt::format("early_warps is {}", machine.early_warps),
                  "give a whole number from 1 to 8");
  return {};
}

double tiles_of(RoleLoop const& loop) {
  double tiles = 0;
  for (auto const& stage : loop.plan.loop.body.stages) tiles += static_cast<double>(stage.blocks());
  return tiles;
}

double slots_of(RoleLoop const& loop) {
  double slots = 0;
  for (std::size_t s = 0; s < loop.work.size(); ++s)
    slots += static_cast<double>(loop.plan.loop.body.stages[s].blocks()) * loop.work[s].slots;
  return slots;
}

/// No launch takes longer: everything that any SM does, one behind the other.
double longest_ns(RoleLoop const& loop, RoleMachine const& machine, double awaited) {
  constexpr double slowness = 4;  // of the SM that is served worst, beside the mean
  double late_load = 0, share = 1;
  for (auto const& [bytes, value] : machine.late_load_ns) late_load = std::max(late_load, value);
  for (auto const& [bytes, value] : machine.dram_share) share = std::min(share, value);
  auto const rate = std::min({machine.dram_gbps * share, machine.l2_gbps, machine.sm_load_gbps});
  double sum = awaited * machine.look_ns * simulation::k_most_late_warps;
  for (std::size_t s = 0; s < loop.work.size(); ++s) {
    auto const& w = loop.work[s];
    double const slot = machine.turn_ns + machine.late_turn_ns + w.slot_ns + machine.load_ns +
                        w.loads_per_slot * machine.load_issue_ns + slowness * w.slot_bytes / rate;
    double const late_slot =
        machine.load_issue_ns + late_load + machine.token_copy_ns + w.late_slot_bytes / rate;
    double const tile = w.slots * slot + simulation::late_slots_of(w) * late_slot + w.end_ns +
                        machine.post_ns + machine.hop_ns;
    sum += tile * static_cast<double>(loop.plan.loop.body.stages[s].blocks());
  }
  return machine.launch_ns + sum * static_cast<double>(loop.iterations);
}

Expected<void> check_all(RoleLoop const& loop, RoleMachine const& machine) {
  if (loop.plan.plan.launches.empty() || !loop.plan.is_persistent())
    return cannot(loop,
                  fmt::format("loop \"{}\" is planned as launches that overlap", loop.plan.loop.body.name),
                  "plan it as one persistent launch: plan_loop()");
  if (auto ok = check_work(loop); !ok) return ok;
  if (auto ok = check_tile_bytes(loop); !ok) return ok;
  if (auto ok = check_machine(loop, machine); !ok) return ok;
  if (auto ok = check_rings(loop, machine); !ok) return ok;
  double const tiles = tiles_of(loop), slots = slots_of(loop);
  auto const iterations = static_cast<double>(loop.iterations);
  auto const awaited = tiles > k_most_tiles ? 0 : simulation::awaited_tiles(loop);
  if (loop.iterations < 1 || iterations * tiles > k_most_tiles ||
      iterations * (slots + awaited) > k_most_steps)
    return cannot(loop,
                  fmt::format("{} iterations of {:.0f} tiles, {:.0f} slots and {:.0f} awaited tiles",
                              loop.iterations, tiles, slots, awaited),
                  "simulate 1 iteration or more, of 2e6 tiles and of 3e7 slots and awaited tiles at most");
  if (auto const longest = longest_ns(loop, machine, awaited); !(longest <= k_longest_ns))
    return cannot(loop,
                  fmt::format("a launch that may take {:.2g} ns, {:.0e} are counted", longest, k_longest_ns),
                  "give fewer iterations or slots, shorter times, or higher bandwidths");
  return {};
}

/// Between the first and the last SM that has multiplied a stage of an iteration, mean over iterations.
double apart(Records const& records, RoleLoop const& loop, int stage) {
  std::vector<std::pair<Picoseconds, Picoseconds>> ends(static_cast<std::size_t>(loop.iterations),
                                                        {simulation::k_never, 0});
  for (auto const& of_sm : records)
    for (auto const& one : of_sm)
      if (one.tile.stage == stage) {
        auto& [first, last] = ends[static_cast<std::size_t>(one.tile.iteration)];
        first = std::min(first, one.multiplied);
        last = std::max(last, one.multiplied);
      }
  double sum = 0;
  for (auto const& [first, last] : ends) sum += ns(last - std::min(first, last));
  return sum / static_cast<double>(loop.iterations);
}

RoleBoundary boundary(Records const& records, RoleLoop const& loop, int from, int to, int& count) {
  auto const& stages = loop.plan.loop.body.stages;
  RoleBoundary result{stages[static_cast<std::size_t>(from)].name, stages[static_cast<std::size_t>(to)].name};
  count = 0;
  for (auto const& of_sm : records)
    for (std::size_t i = 1; i < of_sm.size(); ++i) {
      auto const &before = of_sm[i - 1], &after = of_sm[i];
      if (before.tile.stage != from || after.tile.stage != to) continue;
      ++count;
      result.end_ns += ns(before.stored - before.multiplied);
      result.post_ns += ns(before.posted - before.stored);
      result.results_ns += ns(after.results);
      result.activations_ns += ns(after.activations);
      result.weights_ns += ns(after.weights);
      result.most_ns = std::max(result.most_ns, ns(after.begun - before.multiplied));
      result.full_slots += after.full_slots;
    }
  if (count == 0) return result;
  for (auto* const sum : {&result.end_ns, &result.post_ns, &result.results_ns, &result.activations_ns,
                          &result.weights_ns, &result.full_slots})
    *sum /= count;
  result.apart_ns = apart(records, loop, from);
  return result;
}

RoleStageTime stage_time(Records const& records, RoleLoop const& loop, int stage) {
  RoleStageTime result{loop.plan.loop.body.stages[static_cast<std::size_t>(stage)].name};
  double count = 0;
  for (auto const& of_sm : records)
    for (auto const& one : of_sm) {
      if (one.tile.stage != stage) continue;
      ++count;
      auto const waits = one.later_weights + one.later_activations;
      result.multiply_ns += ns(one.multiplied - one.begun - waits);
      result.weights_ns += ns(one.later_weights);
      result.activations_ns += ns(one.later_activations);
    }
  for (auto* const sum : {&result.multiply_ns, &result.weights_ns, &result.activations_ns})
    if (count > 0) *sum /= count;
  return result;
}

/// When the iteration's last tile is posted.
double end_of(Records const& records, long long iteration) {
  Picoseconds end = 0;
  for (auto const& of_sm : records)
    for (auto const& one : of_sm)
      if (one.tile.iteration <= iteration) end = std::max(end, one.posted);
  return ns(end);
}

}  // namespace

double role_steps(RoleLoop const& loop) { return slots_of(loop) + simulation::awaited_tiles(loop); }

Expected<RolePrediction> simulate_roles(RoleLoop const& loop, RoleMachine const& machine) {
  if (auto ok = check_all(loop, machine); !ok) return tl::make_unexpected(ok.error());
  simulation::RoleRun run(loop, machine);
  if (!run.run())
    return cannot(loop, "the launch gets stuck: stages wait for each other in a circle",
                  "make the plan by plan_loop(), which refuses such a loop");
  RolePrediction result;
  auto const iterations = static_cast<double>(loop.iterations);
  result.total_ns = ns(run.end());
  result.iteration_ns = result.total_ns / iterations;
  if (loop.iterations > 1) result.steady_ns = (result.total_ns - end_of(run.records(), 0)) / (iterations - 1);
  if (result.total_ns > 0) result.dram_share = run.dram_bytes() / (machine.dram_gbps * result.total_ns);
  int const stages = static_cast<int>(loop.work.size());
  for (int to = 0; to < stages; ++to) {
    result.stages.push_back(stage_time(run.records(), loop, to));
    for (int from = 0; from < stages; ++from) {
      int count = 0;
      auto const one = boundary(run.records(), loop, from, to, count);
      if (count > 0) result.boundaries.push_back(one);
    }
  }
  return result;
}

}  // namespace tessera
