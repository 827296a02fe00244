// SPDX-License-Identifier: Apache-2.0
#include "kernels/lattice_boltzmann/step_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/lattice_boltzmann/cluster_cut.hpp"
#include "kernels/lattice_boltzmann/on_chip.hpp"
#include "kernels/lattice_boltzmann/step_costs.hpp"
#include "kernels/lattice_boltzmann/trip.hpp"

namespace tessera::lattice_boltzmann {
namespace {

// notes-lattice-boltzmann.md says where each is from, and to which rows of a record those are fitted that
// are.
/// Of what a copy gets of memory, what a step gets.
constexpr double k_share_of_step = 0.95;
/// Of what the probe reads from the L2, what a step gets that reads and writes as much: as a launch, or in
/// one of all steps.
constexpr double k_share_of_l2 = 0.57, k_persistent_l2 = 0.645;
/// Lattices of up to so much of the L2's size stay there, and of more than that share nothing does.
constexpr double k_stays = 0.98, k_leaves = 1.28;
/// Of one launch of all steps, whose blocks run through the box in an order of their own, beyond the L2.
constexpr double k_persistent_memory = 1.15;
/// A tile of a loop, beyond its waits: drawing it, its record, tiles around it that are late.
constexpr double k_tile_ns = 2800;
/// Blocks with a tile of the box each, beyond what the GPU keeps of where pages are: one row of a record,
/// 20 GB, is so; 2.6 GB are not.
constexpr double k_far_apart = 2.3, k_far_apart_bytes = 8e9;
/// Cycles of shared memory of tasks on the chip, counted from the tables: 19 words in, 19 out, or 5; what
/// meets in a bank counted in. An SM does one at a time.
constexpr double k_rim_words = 46, k_inside_words = 38.5, k_side_words = 9.5;
/// A whole barrier on the chip also waits for the slowest block, of which the probe's knows nothing.
constexpr double k_slowest_block_ns = 1500;
/// Of trips: a plane of a block that waits for nothing but itself.
constexpr double k_plane_ns = 1500;

/// Of a slab, on an SM: its registers hold 4 blocks of 256 threads.
constexpr int k_slab_cells_at_once = 1024;

/// A thread a cell, of a block of one launch of all steps.
constexpr double k_threads_of_persistent = 1024;
/// Warps of a scheduler, on a full SM.
constexpr int k_full_warps = 8;
/// Bytes that an SM loads from the L2 in a cycle at most, and stores to it at the same time.
constexpr double k_port_bytes = 64;
/// On the chip, warps that show and take, and what is left of k_exchange_ns where they do both in one round.
constexpr int k_helper_warps = k_chip_threads / 64;
constexpr double k_short_exchange_ns = 1400;
/// So many rounds of both are the longest that a step waits for: with more of them the inside is larger, too.
constexpr int k_rounds_of_exchange = 6;

/// How long a launch takes to get memory to full speed: first loads, and an update of each warp that a
/// scheduler has. No step is shorter.
double ramp_ns(MachineProfile const& machine, double warps) {
  return measured(machine, "memory.dram.latency.loaded", "", 0, 500) + warps * k_update / clock_of(machine);
}

/// Cells that an SM has to itself, which a small box has fewer of than SMs have room for, or none.
double cells_of_sm(Problem const& problem, Variant variant, MachineProfile const& machine) {
  auto const cells = static_cast<double>(problem.size());
  if (variant == Variant::neighbours && cells < 1.0 * machine.sms * k_threads_of_persistent)
    return tile_cut(problem, machine.sms).most_cells();
  double const block = has_launches(variant) ? k_step_threads : k_threads_of_persistent;
  return std::min(cells, block * std::ceil(cells / block / machine.sms));
}

double ramp_of_cells_ns(MachineProfile const& machine, double cells) {
  return ramp_ns(machine, std::min(1.0 * k_full_warps, std::ceil(cells / 32 / k_schedulers)));
}

/// Each waits on the GPU for the end of the one before, where launches may start early.
double to_the_next_launch_ns(MachineProfile const& machine) {
  return machine.has_pdl && machine.pdl_grid_wait_ns > 0 ? machine.pdl_grid_wait_ns : machine.stream_gap_ns;
}

/// A step whose populations are in memory, or in the L2.
double memory_ns(Problem const& problem, Variant variant, MachineProfile const& machine, bool persistent) {
  double const bytes = k_bytes_per_cell * static_cast<double>(problem.size());
  double const held = has_two_lattices(variant) ? bytes : bytes / 2;
  double const l2 = machine.l2_mib * 1048576;
  double away = std::clamp((held / l2 - k_stays) / (k_leaves - k_stays), 0.0, 1.0);
  double const cells = cells_of_sm(problem, variant, machine);
  double const ramp = ramp_of_cells_ns(machine, cells);
  // Few SMs with all cells have their own ways to the L2 alone. Trips load ahead.
  double const port =
      variant == Variant::trips ? 0 : cells * k_bytes_per_cell / 2 / k_port_bytes / clock_of(machine);
  double const from_l2 = l2_rate(machine);
  double const near =
      std::max(bytes / (from_l2 * (persistent ? k_persistent_l2 : k_share_of_l2)), ramp + port);
  double far = bytes / (copy_rate(machine) * k_share_of_step) * (persistent ? k_persistent_memory : 1) + ramp;
  // Its blocks go through the box in an order of their own: no part of what does not stay is there again.
  if (variant == Variant::neighbours) {
    away = away > 0 ? 1 : 0;
    if (held > k_far_apart_bytes) far *= k_far_apart;
  }
  return (1 - away) * near + away * far;
}

/// On the chip, beside a step's instructions: until a block has shown and taken its cells.
double exchange_ns(ChipWork const& work) {
  double const rounds = std::ceil(work.shown / k_helper_warps) + std::ceil(work.taken / k_helper_warps);
  double const share = std::clamp((rounds - 2) / (k_rounds_of_exchange - 2), 0.0, 1.0);
  return k_short_exchange_ns + share * (k_exchange_ns - k_short_exchange_ns);
}

/// A step of those that trips take: as many planes as there is room for are in memory and are computed by
/// turns, and wait where they meet (a closed network of two places and three customers).
Price trip_price(Problem const& problem, MachineProfile const& machine) {
  auto const cut = trip_cut(problem, machine.sms);
  double const memory = memory_ns(problem, Variant::trips, machine, false);
  double const an_update = k_update_of_trip / 32 / k_schedulers / k_share_of_issue / machine.clock_ghz;
  double const compute = an_update * updates_of_trip(cut, machine.sms);
  double const squares = memory * memory + compute * compute;
  double const met = (memory + compute) * squares / (squares + memory * compute);
  double const rounds = std::ceil(cut.count() / (1.0 * k_trips_on_sm * machine.sms));
  double const planes = rounds * (std::ceil(1.0 * problem.depth / cut.blocks[2]) + 2) * k_plane_ns;
  double const gap = to_the_next_launch_ns(machine);
  double const ns = (std::max(met, planes) + gap) / 2;
  return {Variant::trips, ns,
          fmt::format("a trip of two steps: {:.1f} us of memory, {:.1f} us of {}x{}x{} cells in {} blocks, "
                      "{:.1f} us from launch to launch",
                      memory / 1e3, compute / 1e3, (problem.width + cut.blocks[0] - 1) / cut.blocks[0],
                      (problem.height + cut.blocks[1] - 1) / cut.blocks[1],
                      (problem.depth + cut.blocks[2] - 1) / cut.blocks[2], cut.count(), gap / 1e3)};
}

/// Without rates: on the chip where it fits, else from memory, with two lattices where there is room.
Expected<Choice> choose_unmeasured(Problem const& problem, MachineProfile const& machine,
                                   long long free_bytes) {
  Expected<Choice> result;
  for (auto const variant : {Variant::chip_tokens, Variant::two_lattices, Variant::in_place}) {
    result = choose_variant(problem, machine, variant, free_bytes);
    if (!result) continue;
    result->reason =
        "the machine was not measured; the first of chip_tokens, two_lattices and in_place that fits";
    result->ns_per_step = 0;
    return result;
  }
  return result;
}

Price impossible(Variant variant, std::string why) {
  return {variant, std::numeric_limits<double>::infinity(), std::move(why), false};
}

/// Why no cut in clusters fits.
std::string no_cluster_cut(Problem const& problem, MachineProfile const& machine) {
  int most = 0;
  for (int of = 2; of <= k_cluster_blocks; of *= 2) most = std::max(most, blocks_in_clusters(machine, of));
  if (most == 0)
    return fmt::format("{} ({}) has no clusters of blocks", machine.name.empty() ? "the GPU" : machine.name,
                       machine.architecture.empty() ? "of no known architecture" : machine.architecture);
  if (problem.size() > 1LL * most * k_slot)
    return fmt::format("{} cells do not fit on the {} SMs that clusters find, {} on each", problem.size(),
                       most, k_slot);
  return fmt::format("no cut of {}x{}x{} cells has blocks that fill clusters", problem.width, problem.height,
                     problem.depth);
}

Price cluster_price(Problem const& problem, MachineProfile const& machine) {
  auto const cut = cluster_cut(problem, machine);
  if (!cut) return impossible(Variant::chip_clusters, no_cluster_cut(problem, machine));
  ChipBlock const block(*cut, cut->count() - 1);
  auto const cost = cluster_cost(*cut, machine);
  return {Variant::chip_clusters, cost.ns(),
          fmt::format("{:.1f} us of {}x{}x{} cells on an SM, {:.1f} us that wait for others, {} blocks in "
                      "clusters of {}x{}x{}",
                      cost.cells_ns / 1e3, block.size[0], block.size[1], block.size[2], cost.waits_ns / 1e3,
                      cut->count(), cut->cluster[0], cut->cluster[1], cut->cluster[2])};
}

}  // namespace

Price price_of(Problem const& problem, Variant variant, MachineProfile const& machine, long long free_bytes) {
  if (free_bytes > 0)
    if (auto const ok = check_memory(problem, variant, free_bytes); !ok)
      return impossible(variant, ok.error().front().message);
  if (variant == Variant::trips) return trip_price(problem, machine);
  bool const of_groups = variant == Variant::cooperative || variant == Variant::chip_cooperative;
  double const barrier = barrier_ns(machine, of_groups);
  if (!on_chip(variant)) {
    bool const launches = has_launches(variant);
    double const cells = memory_ns(problem, variant, machine, !launches);
    double const meets = launches ? to_the_next_launch_ns(machine)
                         : variant == Variant::neighbours
                             ? k_tile_ns + machine.post_ns + machine.wait_ns + machine.ticket_ns
                             : barrier;
    return {variant, cells + meets,
            fmt::format("{:.1f} us of memory, {:.1f} us {}", cells / 1e3, meets / 1e3,
                        launches ? "from launch to launch" : "until blocks have met")};
  }
  if (variant == Variant::chip_clusters) return cluster_price(problem, machine);
  auto const cut = chip_cut(problem, machine.sms);
  if (!cut)
    return impossible(variant, fmt::format("{} cells do not fit on {} SMs, {} on each", problem.size(),
                                           machine.sms, k_slot));
  ChipBlock const block(*cut, cut->count() - 1);
  auto const work = work_of(*cut, block);
  double const instructions =
      k_rim * work.rim + k_inside * work.inside + k_shown * work.shown + k_taken * work.taken;
  double const words =
      k_rim_words * work.rim + k_inside_words * work.inside + k_side_words * (work.shown + work.taken);
  // A whole barrier keeps nothing behind anything: instructions and shared memory add up. Else shared memory
  // is hidden, and what leaves a block and comes into it is what a step waits for beside its instructions.
  bool const whole = variant == Variant::chip_barrier || variant == Variant::chip_cooperative;
  double const cells = instructions / k_schedulers / k_share_of_issue / clock_of(machine) +
                       (whole ? words / clock_of(machine) : exchange_ns(work));
  // Who takes behind the inside waits for its last task, for a table's entry, and for what it says where to
  // look.
  double const take = k_inside * measured(machine, "check.add.chain", "", 0, 4) / clock_of(machine) +
                      2 * measured(machine, "memory.l2.hit", "", 0, 200);
  double waits = 0;
  switch (variant) {
    case Variant::chip_tokens: waits = measured(machine, "pair.hop.token", "bytes", 4096, 500); break;
    case Variant::chip_semaphores:
      waits = measured(machine, "pair.hop.store", "bytes", 4096, 1000) + take;
      break;
    case Variant::chip_split_barrier:
      waits = measured(machine, "grid.barrier.own.split", "interior_ns", 2000, 800) + take;
      break;
    default: waits = barrier + take + k_slowest_block_ns; break;
  }
  return {variant, cells + waits,
          fmt::format("{:.1f} us of {}x{}x{} cells on an SM, {:.1f} us that wait for others", cells / 1e3,
                      block.size[0], block.size[1], block.size[2], waits / 1e3)};
}

double slabs_ns(Problem const& problem, int ranks, MachineProfile const& machine) {
  Problem slab{problem.width, problem.height, (problem.depth + ranks - 1) / ranks};
  // What crosses the link does so while the inside is computed; but a step is no shorter than its launch, its
  // cells at an end, which share the GPU with as many others as run at once, and the way of what they store
  // to the neighbour, whose step waits for it.
  double const gap = to_the_next_launch_ns(machine);
  double const cells = memory_ns(slab, Variant::two_lattices, machine, false);
  double const at_once = std::min(1.0, 1.0 * machine.sms * k_slab_cells_at_once / slab.size());
  double const hop = measured(machine, "peer.hop.store", "bytes", 32768, 2900);
  return gap + std::max(cells, std::max(ramp_ns(machine, k_full_warps), at_once * cells) + hop);
}

Expected<Choice> choose_variant(Problem const& problem, MachineProfile const& machine, Variant variant,
                                long long free_bytes) {
  if (auto ok = check_problem(problem); !ok) return tl::make_unexpected(ok.error());
  if (free_bytes > 0)
    if (auto ok = check_memory(problem, variant, free_bytes); !ok) return tl::make_unexpected(ok.error());
  auto const price = price_of(problem, variant, machine, free_bytes);
  if (!price.possible)
    return refuse(
        does_not_fit(fmt::format("{} as {}: {}", to_string(problem), to_string(variant), price.reason),
                     "take a variant whose cells are in memory"));
  Choice result{variant, {}, price.ns_per_step, price.reason, {price}};
  result.cut = variant == Variant::chip_clusters ? *cluster_cut(problem, machine)
               : on_chip(variant)                ? *chip_cut(problem, machine.sms)
               : variant == Variant::trips       ? trip_cut(problem, machine.sms)
                                                 : tile_cut(problem, machine.sms);
  return result;
}

Expected<Choice> choose_variant(Problem const& problem, MachineProfile const& machine, long long free_bytes) {
  if (machine.dram_gbps <= 0 || machine.clock_ghz <= 0)
    return choose_unmeasured(problem, machine, free_bytes);
  std::vector<Price> prices;
  for (auto const variant : k_variants) prices.push_back(price_of(problem, variant, machine, free_bytes));
  // Of two that take as long, the one that takes less memory.
  auto const best = std::min_element(prices.begin(), prices.end(), [&](Price const& a, Price const& b) {
    if (a.ns_per_step != b.ns_per_step) return a.ns_per_step < b.ns_per_step;
    return a.possible && memory_of(problem, a.variant) < memory_of(problem, b.variant);
  });
  auto result = choose_variant(problem, machine, best->variant, free_bytes);
  if (result)
    for (auto const& other : prices)
      if (other.ns_per_step == best->ns_per_step &&
          memory_of(problem, other.variant) > memory_of(problem, best->variant))
        result->reason += fmt::format("; {} takes as long and more memory", to_string(other.variant));
  if (result) result->prices = std::move(prices);
  return result;
}

}  // namespace tessera::lattice_boltzmann
