// SPDX-License-Identifier: Apache-2.0
#include "kernels/lattice_boltzmann/step_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "kernels/lattice_boltzmann/on_chip.hpp"

namespace tessera::lattice_boltzmann {
namespace {

constexpr double k_bytes_per_cell = 2 * 4 * k_directions;
/// Of what the probe reads from memory, what a stencil of reads and writes gets: to be measured.
constexpr double k_share_of_bandwidth = 0.9;
/// Cycles of an SM for 32 cells whose populations are in its shared memory: some 190 instructions of a warp
/// by four schedulers, and what they wait for each other.
constexpr double k_cycles_per_task = 60;
/// What a step takes beyond its tasks when nobody waits for another block: a barrier of the block, the ends
/// of loops.
constexpr double k_step_ns = 250;

/// A figure of the probe, in ns, or what is given.
double measured_ns(MachineProfile const& machine, char const* id, double otherwise) {
  if (!machine.probe) return otherwise;
  for (auto const& one : machine.probe->figures) {
    auto const blocks = one.at.find("blocks_per_sm");
    if (one.id == id && one.unit == "ns" && (blocks == one.at.end() || blocks->second == 1))
      return one.median;
  }
  return otherwise;
}

double memory_ns(Problem const& problem, MachineProfile const& machine) {
  double const bytes = k_bytes_per_cell * static_cast<double>(problem.size());
  double const held = bytes < 0.6 * machine.l2_mib * 1048576 ? machine.l2_gbps : machine.dram_gbps;
  return bytes / (held * k_share_of_bandwidth);
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

}  // namespace

Price price_of(Problem const& problem, Variant variant, MachineProfile const& machine, long long free_bytes) {
  if (free_bytes > 0)
    if (auto const ok = check_memory(problem, variant, free_bytes); !ok)
      return impossible(variant, ok.error().front().message);
  double const barrier = measured_ns(machine,
                                     variant == Variant::cooperative || variant == Variant::chip_cooperative
                                         ? "grid.barrier.cooperative.data"
                                         : "grid.barrier.own.data",
                                     1200);
  if (!on_chip(variant)) {
    double const cells = memory_ns(problem, machine);
    if (variant == Variant::two_lattices || variant == Variant::in_place)
      return {variant, cells + machine.stream_gap_ns,
              fmt::format("{:.1f} us of memory, {:.1f} us from launch to launch", cells / 1e3,
                          machine.stream_gap_ns / 1e3)};
    double const meets =
        variant == Variant::neighbours ? machine.post_ns + machine.wait_ns + machine.ticket_ns : barrier;
    return {variant, cells + meets,
            fmt::format("{:.1f} us of memory, {:.1f} us until blocks have met", cells / 1e3, meets / 1e3)};
  }
  auto const cut = chip_cut(problem, machine.sms);
  if (!cut)
    return impossible(variant, fmt::format("{} cells do not fit on {} SMs, {} on each", problem.size(),
                                           machine.sms, k_slot));
  double const task = k_cycles_per_task / machine.clock_ghz;
  double const cells = tasks_of(*cut) * task + k_step_ns;
  ChipBlock block;
  block.set(*cut, 0, k_slot);
  double const inside = task * (block.cells() - block.rim()) / 32;
  double const hop = machine.post_ns + machine.wait_ns;
  // What is not hidden behind the inside.
  double waits = 0;
  switch (variant) {
    case Variant::chip_tokens: waits = std::max(0.0, hop / 2 - inside); break;
    case Variant::chip_semaphores: waits = std::max(200.0, hop - inside); break;
    case Variant::chip_split_barrier: waits = std::max(300.0, barrier - inside); break;
    default: waits = barrier; break;
  }
  return {variant, cells + waits,
          fmt::format("{:.1f} us of {}x{}x{} cells on an SM, {:.1f} us for what comes from others",
                      cells / 1e3, block.size[0], block.size[1], block.size[2], waits / 1e3)};
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
  result.cut = on_chip(variant) ? *chip_cut(problem, machine.sms) : tile_cut(problem, machine.sms);
  return result;
}

Expected<Choice> choose_variant(Problem const& problem, MachineProfile const& machine, long long free_bytes) {
  if (machine.dram_gbps <= 0 || machine.clock_ghz <= 0)
    return choose_unmeasured(problem, machine, free_bytes);
  std::vector<Price> prices;
  for (auto const variant : k_variants) prices.push_back(price_of(problem, variant, machine, free_bytes));
  auto const best = std::min_element(prices.begin(), prices.end(), [](Price const& a, Price const& b) {
    return a.ns_per_step < b.ns_per_step;
  });
  auto result = choose_variant(problem, machine, best->variant, free_bytes);
  if (result) result->prices = std::move(prices);
  return result;
}

}  // namespace tessera::lattice_boltzmann
