// SPDX-License-Identifier: Apache-2.0
#include "kernels/lattice_boltzmann/variant_plan.hpp"

#include <algorithm>
#include <cmath>
#include <tessera/describe/dsl.hpp>
#include <tessera/plan/written_out.hpp>

#include "kernels/lattice_boltzmann/cluster_cut.hpp"
#include "kernels/lattice_boltzmann/on_chip.hpp"
#include "kernels/lattice_boltzmann/step_choice.hpp"
#include "kernels/lattice_boltzmann/step_costs.hpp"
#include "kernels/lattice_boltzmann/trip.hpp"

namespace tessera::lattice_boltzmann {
namespace {

constexpr int k_launch_threads = 256, k_persistent_threads = 1024, k_tile_warps = 24;
constexpr int k_chip_warps_of_block = k_chip_threads / 32, k_helpers_of_block = k_chip_warps_of_block / 2;
constexpr int k_cells_taken_at_once = 2;  ///< by a thread
constexpr int k_planes_in_flight = 3;     ///< of a trip
constexpr double k_nothing_ns = 1;        ///< of a stage that has nothing to do
constexpr int k_waits_at_once = 32;       ///< a thread of a warp looks for each

bool has_whole_barrier(Variant variant) {
  return variant == Variant::chip_barrier || variant == Variant::chip_cooperative;
}
bool is_of_groups(Variant variant) {
  return variant == Variant::cooperative || variant == Variant::chip_cooperative;
}

/// The stage of an iteration whose tiles are awaited by other blocks.
std::size_t whose_posts_travel(Variant variant) {
  return !on_chip(variant) ? 0 : has_whole_barrier(variant) ? 2 : 1;
}

/// Do its lattices stay in the L2?
bool stays(Problem const& problem, Variant variant, MachineProfile const& machine) {
  double const held = k_bytes_per_cell / (has_two_lattices(variant) ? 1 : 2);
  return held * static_cast<double>(problem.size()) <= machine.l2_mib * 1048576;
}

/// Slices of a stage whose tiles are of so many cells: tasks of 32 cells, or a trip's planes.
struct Slices {
  int count = 1, in_flight = 1;
  double updates = 32;  ///< of a slice
};

/// How a box is shared by the tiles of a stage that has its cells in memory.
struct Shares {
  ChipCut cut;
  Resources resources;
  Slices slices;
  double bytes = 0;  ///< that a tile reads and writes
};

Shares shares_of(Problem const& problem, Variant variant, MachineProfile const& machine) {
  auto const cells = static_cast<double>(problem.size());
  Shares shares;
  shares.cut = {{problem.width, problem.height, problem.depth}, {1, 1, 1}};
  auto const tasks = [&](double of_tile, int warps) {
    shares.slices.count = static_cast<int>(std::ceil(of_tile / 32));
    shares.slices.in_flight = std::min(warps, shares.slices.count);
  };
  switch (variant) {
    case Variant::trips: {
      shares.cut = trip_cut(problem, machine.sms);
      TripTile const tile(shares.cut, shares.cut.count() - 1);
      shares.resources = {k_trip_threads, 64, k_trip_shared_bytes};
      shares.slices = {tile.planes(), k_planes_in_flight,
                       updates_of_trip(shares.cut, machine.sms) /
                           std::ceil(shares.cut.count() / (1.0 * machine.sms * k_trips_on_sm)) /
                           tile.planes()};
      shares.bytes =
          k_bytes_per_cell / 2 * (1.0 * tile.planes() * tile.columns() + cells / shares.cut.count());
      return shares;
    }
    case Variant::barrier:
    case Variant::cooperative:
      shares.cut.blocks[0] = static_cast<int>(std::min(1.0 * machine.sms, std::ceil(cells / 32)));
      shares.resources = {k_persistent_threads, 64, 0};
      tasks(cells / shares.cut.count(), k_persistent_threads / 32);
      break;
    case Variant::neighbours:
      shares.cut = tile_cut(problem, machine.sms);
      shares.resources = {32 * k_tile_warps, 80, 0};
      tasks(shares.cut.most_cells(), k_tile_warps);
      break;
    default:
      shares.cut.blocks[0] = static_cast<int>(std::ceil(cells / k_launch_threads));
      shares.resources = {k_launch_threads, variant == Variant::in_place ? 80 : 64, 0};
      tasks(k_launch_threads, k_launch_threads / 32);
  }
  shares.bytes = k_bytes_per_cell * cells / shares.cut.count();
  return shares;
}

/// A coordinate and its two neighbours around a periodic axis of so many tiles, each once.
std::vector<Dim> around(Dim const& at, int tiles) {
  std::vector<Dim> result = {at};
  if (tiles > 1) result.push_back((at + 1) % tiles);
  if (tiles > 2) result.push_back((at + (tiles - 1)) % tiles);
  return result;
}

/// The tiles around (x, y, z), this one included.
template <class Tiles>
std::vector<TileRef> all_around(Tiles const& of, ChipCut const& cut, Dim const& x, Dim const& y,
                                Dim const& z) {
  std::vector<TileRef> result;
  for (auto const& c : around(z, cut.blocks[2]))
    for (auto const& b : around(y, cut.blocks[1]))
      for (auto const& a : around(x, cut.blocks[0])) result.push_back(of(a, b, c));
  return result;
}

Expected<Loop> describe_in_memory(Problem const& problem, Variant variant, MachineProfile const& machine) {
  auto const shares = shares_of(problem, variant, machine);
  auto const& blocks = shares.cut.blocks;
  PipelineBuilder pipeline("lattice_boltzmann");
  auto [x, y, z] = pipeline.dims("x", "y", "z");
  auto step = pipeline.stage("step", {x = blocks[0], y = blocks[1], z = blocks[2]});
  step.output("populations").resources(shares.resources).kernel(k_step_kernel);
  step.cost({0, 0, shares.slices.count, shares.slices.in_flight});
  // What is written counts with what is read: warps do both at the same time, and a tile has no end at which
  // it only stores.
  step.reads("before", "populations", shares.bytes, k_bytes_per_cell * static_cast<double>(problem.size()));
  bool const tiles_wait = variant == Variant::neighbours;
  auto const read =
      tiles_wait
          ? all_around([&](Dim const& a, Dim const& b, Dim const& c) { return earlier(step(a, b, c)); },
                       shares.cut, x, y, z)
          : std::vector<TileRef>{earlier(step(all(x), all(y), all(z)))};
  auto dependence = pipeline.depends_on(step(x, y, z), read);
  dependence.through("before");
  if (!tiles_wait) dependence.policy(whole_grid());
  pipeline.each_iteration("populations");
  return pipeline.build_loop();
}

/// Of a stage on the chip: `tasks` of so many instructions by so many warps, and what its SM's share of the
/// L2 takes for what goes through there. Alone a stage takes its longest warp, one instruction behind the
/// other.
BlockTime time_of(double tasks, double instructions, int warps, double l2_bytes, double latency_ns,
                  MachineProfile const& machine) {
  double const rounds = std::ceil(tasks / warps), clock = clock_of(machine);
  double const chain = measured(machine, "check.add.chain", "", 0, 4);
  double const l2 = l2_bytes * machine.sms / l2_rate(machine);
  double const share = tasks * instructions / k_schedulers / k_share_of_issue / clock;
  return {std::max({share, l2, rounds * (instructions * chain / clock + latency_ns)}), share, 0};
}

/// Bytes that a block shows of a cell, in two packets.
constexpr double k_packets = 2 * 16;

/// What it takes longer to hand over so many bytes than as few as the probe's hops and barriers do, by the
/// two sizes that it has of one hop: until all stores are there, and others have loaded them.
double of_more_bytes_ns(MachineProfile const& machine, double bytes) {
  constexpr double few = 4096, many = 32768;
  double const of_few = measured(machine, "pair.hop.store", "bytes", few, 0),
               of_many = measured(machine, "pair.hop.store", "bytes", many, of_few);
  return std::max(0.0, (of_many - of_few) * (bytes - few) / (many - few));
}

/// The rim, what is shown of it, the inside, and what is taken of the neighbours'. Where a step is not a
/// whole barrier's, the inside is computed while words are on their way; by tokens, while others of the
/// block's warps show and take.
Expected<Loop> describe_on_chip(ChipCut const& cut, Variant variant, MachineProfile const& machine,
                                StepFit const& fit) {
  PipelineBuilder pipeline("lattice_boltzmann");
  auto [x, y, z] = pipeline.dims("x", "y", "z");
  std::initializer_list<DimExtent> const grid = {x = cut.blocks[0], y = cut.blocks[1], z = cut.blocks[2]};
  auto rim = pipeline.stage("rim", grid), show = pipeline.stage("show", grid),
       inside = pipeline.stage("inside", grid), take = pipeline.stage("take", grid);
  for (auto* const stage : {&rim, &show, &inside, &take}) {
    // Two of the simulator's blocks are one of the kernel's: its warps have parts.
    stage->resources({k_chip_threads / 2, 72, k_chip_shared_bytes / 2});
    pipeline.each_iteration(stage->name());
  }
  bool const whole = has_whole_barrier(variant),
             tokens = variant == Variant::chip_tokens || variant == Variant::chip_clusters;
  pipeline.depends(rim(x, y, z), earlier(inside(x, y, z)));
  pipeline.depends(rim(x, y, z), earlier(take(x, y, z)));
  pipeline.depends(show(x, y, z), rim(x, y, z));
  whole ? pipeline.depends(inside(x, y, z), show(x, y, z)) : pipeline.depends(inside(x, y, z), rim(x, y, z));
  if (whole) {
    pipeline.depends(take(x, y, z), inside(all(x), all(y), all(z))).policy(whole_grid());
  } else {
    if (variant == Variant::chip_split_barrier)
      pipeline.depends(take(x, y, z), show(all(x), all(y), all(z))).policy(whole_grid());
    else
      pipeline.depends_on(take(x, y, z), all_around(show, cut, x, y, z));
    if (!tokens) pipeline.depends(take(x, y, z), inside(x, y, z));
  }
  auto loop = pipeline.build_loop();
  if (!loop) return loop;

  auto const work = work_of(cut, ChipBlock(cut, cut.count() - 1));
  int const warps = k_chip_warps_of_block, others = tokens ? k_helpers_of_block : warps;
  double const two_looks = 2 * measured(machine, "memory.l2.hit", "", 0, 200);
  auto& stages = loop->body.stages;
  // Of clusters, whoever has waited for a neighbour there finds the rim's tables in the L2 only.
  bool const clusters = variant == Variant::chip_clusters;
  double const of_rim = k_rim + k_linked_more * work.linked / std::max(1.0, work.rim);
  stages[0].block_time = time_of(work.rim, of_rim, warps, 0, clusters ? two_looks / 2 : 0, machine);
  stages[1].block_time = time_of(work.shown, k_shown, others, k_packets * work.shown_cells, 0, machine);
  stages[2].block_time = time_of(work.inside, k_inside, warps, 0, 0, machine);
  // A table's entry, and what it says where to look.
  stages[3].block_time = time_of(work.taken, k_taken, others * k_cells_taken_at_once,
                                 k_packets * work.taken_cells, two_looks, machine);
  if (!clusters || !in_one_cluster(cut)) {
    stages[3].block_time.alone_ns += fit.exchange_ns;
  } else {
    // Nothing is shown or taken; a block tells its neighbours and waits for them.
    stages[1].block_time = stages[3].block_time = {k_nothing_ns, k_nothing_ns, 0};
  }
  return loop;
}

/// The workers of an SM, which draw one behind the other, begin with a rim and with showing, so that each SM
/// has one of both; from then on all that end together draw tiles of one stage.
void part_blocks(Plan& plan, int tiles) {
  auto& tickets = plan.launches.front().tickets;
  for (std::int32_t tile = 0; tile < tiles; ++tile) tickets.insert(tickets.end(), {{0, tile}, {1, tile}});
  for (std::int32_t stage = 2; stage < static_cast<std::int32_t>(plan.stages.size()); ++stage)
    for (std::int32_t tile = 0; tile < tiles; ++tile) tickets.push_back({stage, tile});
}

std::optional<ChipCut> chip_cut_of(Problem const& problem, Variant variant, MachineProfile const& machine) {
  return variant == Variant::chip_clusters ? cluster_cut(problem, machine) : chip_cut(problem, machine.sms);
}
Expected<ChipCut> cut_of(Problem const& problem, Variant variant, MachineProfile const& machine) {
  if (auto const cut = chip_cut_of(problem, variant, machine)) return *cut;
  return refuse(does_not_fit(to_string(problem) + " does not fit on the chip",
                             "take a variant whose cells are in memory"));
}

/// What it costs to tell others, of a step in one launch.
double way_ns(Variant variant, std::optional<ChipCut> const& cut, MachineProfile const& machine) {
  switch (variant) {
    case Variant::chip_clusters:
      if (cut && in_one_cluster(*cut)) return cluster_hop_ns(*cut, machine);
      [[fallthrough]];
    case Variant::chip_tokens: return measured(machine, "pair.hop.token", "bytes", 4096, 500);
    case Variant::chip_semaphores: return measured(machine, "pair.hop.store", "bytes", 4096, 1000);
    case Variant::chip_split_barrier:
      return measured(machine, "grid.barrier.own.split", "interior_ns", 2000, 800);
    default: return barrier_ns(machine, is_of_groups(variant));
  }
}

}  // namespace

MachineProfile machine_of(Problem const& problem, Variant variant, MachineProfile const& machine,
                          StepFit const& fit) {
  auto m = machine;
  m.power_limit_w = 0;  // matrix units do nothing
  m.clock_ghz = clock_of(machine);
  m.asynchronous_loads = false;
  m.l2_parts = 1;
  m.l2_gbps = l2_rate(machine) * fit.l2_share;
  m.dram_gbps = copy_rate(machine);
  m.block_start_ns = measured(machine, "kernel.block_turnover", "", 0, 210);
  bool const in_l2 = on_chip(variant) || stays(problem, variant, machine);
  m.dram_latency_ns = in_l2 ? measured(machine, "memory.l2.hit", "", 0, 200)
                            : measured(machine, "memory.dram.latency.loaded", "", 0, 500);
  // Of one lattice in place the L2 holds a place once, which a step reads and writes.
  if (!has_two_lattices(variant)) m.l2_mib *= 2;
  if (!has_launches(variant) && variant != Variant::neighbours) {
    // A block knows its tile, and what it waits for is in the figure of how others are told.
    m.ticket_ns = m.wait_ns = 0;
    m.store_post_ns = measured(machine, "block.syncthreads", "threads", 1024, 77) / m.clock_ghz;
    auto const cut = on_chip(variant) ? chip_cut_of(problem, variant, machine) : std::nullopt;
    m.post_ns = way_ns(variant, cut, machine);
    if (cut)
      m.post_ns +=
          of_more_bytes_ns(machine, k_packets * work_of(*cut, ChipBlock(*cut, cut->count() - 1)).shown_cells);
  }
  if (!on_chip(variant)) {
    auto const slices = shares_of(problem, variant, machine).slices;
    double const update = variant == Variant::trips ? k_update_of_trip : k_update;
    KernelTiming timing;
    timing.slice_cycles = slices.updates / 32 * update / k_schedulers / k_share_of_issue;
    timing.waits_per_poll = k_waits_at_once;
    timing.source = "counted instructions (docs/design/notes-lattice-boltzmann.md)";
    m.kernels[k_step_kernel] = timing;
  }
  return m;
}

Expected<Loop> describe_variant(Problem const& problem, Variant variant, MachineProfile const& machine,
                                StepFit const& fit) {
  if (!on_chip(variant)) return describe_in_memory(problem, variant, machine);
  auto const cut = cut_of(problem, variant, machine);
  if (!cut) return tl::make_unexpected(cut.error());
  return describe_on_chip(*cut, variant, machine, fit);
}

Expected<Plan> plan_variant(Problem const& problem, Variant variant, MachineProfile const& machine,
                            int iterations, StepFit const& fit) {
  auto const loop = describe_variant(problem, variant, machine, fit);
  if (!loop) return tl::make_unexpected(loop.error());
  auto const steps_machine = machine_of(problem, variant, machine, fit);
  if (has_launches(variant)) return plan_launches_written_out(*loop, steps_machine, iterations);
  auto const tiles = static_cast<int>(loop->body.stages.front().tiles());
  bool const in_parts = on_chip(variant) && !has_whole_barrier(variant);
  auto plan = plan_persistent_written_out(*loop, steps_machine, iterations, in_parts ? 2 * tiles : tiles);
  if (!plan) return plan;
  if (in_parts) part_blocks(*plan, tiles);
  // Who tells his own block alone does so by the block's barrier.
  auto const tells_others = whose_posts_travel(variant);
  for (std::size_t s = 0; s < plan->stages.size(); ++s)
    plan->stages[s].plain_store = s % loop->body.stages.size() != tells_others;
  return plan;
}

}  // namespace tessera::lattice_boltzmann
