// SPDX-License-Identifier: Apache-2.0
// Random plans, good and bad, made without the planner: any policy, order, ticket sequence and switch on a
// random pipeline; and small machines whose SMs can hold few blocks.
#pragma once

#include <rapidcheck.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <ostream>
#include <utility>
#include <vector>

#include "support/random_pipeline.hpp"
#include "tessera/measure/machine_profile.hpp"
#include "tessera/plan/plan.hpp"
#include "tessera/plan/policies.hpp"
#include "tessera/plan/progress.hpp"

namespace tessera {

/// A plan with the machine that it is for.
struct PlanOnMachine {
  Plan plan;
  MachineProfile machine;
};

/// Readable on one screen: machine, launches, then one line per stage, set and edge.
inline void showValue(PlanOnMachine const& value, std::ostream& out) {
  auto const& [plan, machine] = value;
  static char const* const groupings[] = {"each", "all", "block", "stride"};
  out << machine.sms << " SMs of " << machine.blocks_per_sm << " slots, " << machine.threads_per_sm
      << " threads, " << machine.registers_per_sm << " registers, " << machine.shared_bytes_per_sm
      << " shared; " << (machine.dispatches_in_launch_order ? "in launch order" : "in any order") << '\n';
  out << mechanism_text(plan) << '\n';
  for (auto const& launch : plan.launches) {
    static char const* const starts[] = {"in order", "early", "beside"};
    out << "  launch of stages " << launch.first << " to " << launch.end() - 1 << ", "
        << starts[static_cast<int>(launch.start)] << (launch.wait_kernel ? ", wait kernel" : "") << ", "
        << launch.workers << " workers";
    if (!launch.tickets.empty()) out << ", tickets";
    for (auto const& ticket : launch.tickets) out << ' ' << ticket.stage << ':' << ticket.position;
    out << '\n';
  }
  showValue(plan.pipeline, out);
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    auto const& r = plan.pipeline.stages[s].resources;
    out << "  " << plan.pipeline.stages[s].name << ": " << r.threads << " threads, " << r.registers_per_thread
        << " registers, " << r.shared_bytes << " shared"
        << (plan.stages[s].custom_order ? ", custom order" : "") << ", order";
    for (auto const tile : plan.stages[s].order.table) out << ' ' << tile;
    out << '\n';
  }
  for (auto const& set : plan.semaphores) {
    out << "  set of " << plan.pipeline.stages[static_cast<std::size_t>(set.producer)].name << " from "
        << set.first << ", " << set.count << ':';
    for (auto const semaphore : set.map.table) out << ' ' << semaphore;
    for (auto const& dimension : set.map.dimension)
      out << ' ' << groupings[static_cast<int>(dimension.grouping)] << dimension.width;
    out << '\n';
  }
  for (auto const& planned : plan.dependences)
    out << "  dependence " << planned.dependence << " set " << planned.semaphore_set << '\n';
  for (auto const& edge : plan.reuse_edges)
    out << "  reuse: " << edge.writer << " overwrites what " << edge.reader << " used, set "
        << edge.semaphore_set << '\n';
}

}  // namespace tessera

namespace tessera::random {

inline MachineProfile small_machine() {
  MachineProfile machine;
  machine.name = "small";
  machine.gpu = "small";
  machine.sms = pick(1, 4);
  machine.blocks_per_sm = pick(1, 4);
  machine.threads_per_sm = 256;
  machine.registers_per_sm = 65536;
  machine.shared_bytes_per_sm = 1000;
  machine.shared_bytes_per_block = 1000;
  machine.shared_granularity = 1;
  machine.clock_ghz = 1;
  machine.matrix_flops_per_clock_per_sm = 1000;
  machine.dram_gbps = 1000;
  machine.l2_gbps = 2000;
  machine.sm_load_gbps = 100;
  machine.launch_ns = pick(0, 3) * 500;
  machine.stream_gap_ns = pick(0, 2) * 500;
  machine.stream_start_ns = pick(0, 2) * 500;
  machine.post_ns = pick(0, 2) * 300;
  machine.wait_ns = pick(0, 2) * 300;
  machine.has_pdl = true;
  machine.dispatches_in_launch_order = chance(50);
  return machine;
}

/// Blocks of which an SM of small_machine() holds one to eight.
inline Resources small_resources() {
  static constexpr int threads[] = {32, 64, 128, 256};
  static constexpr int registers[] = {16, 64, 128, 255};
  static constexpr int shared[] = {0, 250, 400, 600, 1000};
  return {threads[pick(0, 3)], registers[pick(0, 3)], shared[pick(0, 4)]};
}

template <class T>
void shuffle(std::vector<T>& values) {
  for (auto i = values.size(); i > 1; --i)
    std::swap(values[i - 1], values[static_cast<std::size_t>(pick(0, static_cast<int>(i) - 1))]);
}

/// A product, or now and then a table that is none.
inline PolicyMap semaphore_map(Stage const& producer) {
  if (chance(15)) {
    auto const tiles = static_cast<int>(producer.tiles());
    auto const semaphores = pick(1, tiles);
    std::vector<std::int32_t> table;
    for (int tile = 0; tile < tiles; ++tile)
      table.push_back(tile < semaphores ? tile : pick(0, semaphores - 1));
    shuffle(table);
    return table_map(std::move(table));
  }
  PolicyMap map;
  for (std::size_t d = 0; d < producer.grid.size(); ++d) {
    map.dimension[d].grouping = static_cast<Grouping>(pick(0, 3));
    map.dimension[d].width = pick(1, 3);
  }
  return map;
}

inline int add_set(Plan& plan, int producer, PolicyMap const& map) {
  SemaphoreSet set;
  set.producer = producer;
  set.map = map;
  set.policy = policy_name(map, plan.pipeline.stages[static_cast<std::size_t>(producer)].tile_grid(), false);
  set.first = plan.semaphores.empty() ? 0 : plan.semaphores.back().first + plan.semaphores.back().count;
  set.count = map.count(plan.pipeline.stages[static_cast<std::size_t>(producer)].tile_grid());
  plan.semaphores.push_back(set);
  return static_cast<int>(plan.semaphores.size()) - 1;
}

/// All blocks of a launch once: stage by stage, shuffled whole, or with a few pairs exchanged.
inline std::vector<Launch::Ticket> tickets(Pipeline const& pipeline, Launch const& launch) {
  std::vector<Launch::Ticket> result;
  for (int s = launch.first; s < launch.end(); ++s)
    for (std::int64_t b = 0; b < pipeline.stages[static_cast<std::size_t>(s)].blocks(); ++b)
      result.push_back({s, static_cast<std::int32_t>(b)});
  if (chance(40)) {
    shuffle(result);
  } else {
    auto const last = static_cast<int>(result.size()) - 1;
    for (auto swaps = pick(0, 4); swaps > 0; --swaps)
      std::swap(result[static_cast<std::size_t>(pick(0, last))],
                result[static_cast<std::size_t>(pick(0, last))]);
  }
  return result;
}

/// Workers of a launch, now and then one too many, and an order of tickets.
inline void add_workers(Launch& launch, Pipeline const& pipeline, MachineProfile const& machine) {
  auto const capacity = std::max(1, occupancy(machine, worker_resources(pipeline, launch)) * machine.sms);
  launch.workers = chance(10) ? capacity + 1 : pick(1, capacity);
  if (chance(80)) launch.tickets = tickets(pipeline, launch);
}

/// Launches of any kinds: groups of kernels beside each other, PDL chains that persistent launches are part
/// of, kernels in order.
inline std::vector<Launch> mixed_launches(Pipeline const& pipeline, MachineProfile const& machine) {
  std::vector<Launch> launches;
  int const stages = static_cast<int>(pipeline.stages.size());
  bool may_be_beside = false;  // what is beside has a plain kernel, or another one beside, before it
  bool may_be_early = false;
  for (int s = 0; s < stages;) {
    Launch launch{s, 1, LaunchStart::in_order, false, 0, {}};
    if (may_be_beside && chance(35)) {
      launch.start = LaunchStart::beside;
      launch.wait_kernel = chance(50);
      may_be_early = false;
    } else {
      if (may_be_early && chance(50)) launch.start = LaunchStart::early;
      if (chance(40)) {
        launch.stages = pick(1, std::min(3, stages - s));
        add_workers(launch, pipeline, machine);
      }
      may_be_beside = launch.workers == 0 && launch.start == LaunchStart::in_order;
      may_be_early = true;
    }
    s = launch.end();
    launches.push_back(std::move(launch));
  }
  return launches;
}

/// Any plan for the pipeline, whether it can make progress or not. Each of its parts is consistent: it would
/// pass parse_plan(). Without a mechanism (null) its launches are mixed.
inline Plan build_plan(Pipeline pipeline, MachineProfile const& machine, Mechanism const* mechanism) {
  Plan plan;
  plan.pipeline = std::move(pipeline);
  plan.machine = machine.name;
  auto const all_wait = chance(25);
  auto const same_resources = chance(30);
  for (std::size_t s = 0; s < plan.pipeline.stages.size(); ++s) {
    auto& stage = plan.pipeline.stages[s];
    stage.resources = s > 0 && same_resources ? plan.pipeline.stages[0].resources : small_resources();
    stage.flops_per_block = pick(1, 5) * 1e6;
    StagePlan planned;
    planned.occupancy = occupancy(machine, stage.resources);
    planned.custom_order = chance(60);
    if (planned.custom_order && chance(50)) {
      planned.order.name = "random";
      planned.order.table.resize(static_cast<std::size_t>(stage.tiles()));
      std::iota(planned.order.table.begin(), planned.order.table.end(), 0);
      shuffle(planned.order.table);
    }
    planned.reorder_loads = chance(30);
    if (planned.occupancy > 0)
      planned.waves = static_cast<double>(stage.blocks()) / (planned.occupancy * machine.sms);
    plan.stages.push_back(std::move(planned));
  }
  if (mechanism) {
    plan.launches = launches_for(*mechanism, static_cast<int>(plan.pipeline.stages.size()));
    for (auto& launch : plan.launches)
      launch.wait_kernel = launch.start == LaunchStart::beside && (all_wait || chance(40));
    if (*mechanism == Mechanism::fused) add_workers(plan.launches.front(), plan.pipeline, machine);
  } else {
    plan.launches = mixed_launches(plan.pipeline, machine);
  }
  auto const set_for = [&](int consumer, int producer, PolicyMap const& map, bool wanted) {
    if (!wanted && kept_by(plan, consumer, producer, -1) != KeptBy::nothing) return -1;
    return add_set(plan, producer, map);
  };
  bool const semaphores = mechanism != nullptr && uses_semaphores(*mechanism);
  for (std::size_t d = 0; d < plan.pipeline.dependences.size(); ++d) {
    auto const& dependence = plan.pipeline.dependences[d];
    auto const& stage = plan.pipeline.stages[static_cast<std::size_t>(dependence.producer)];
    bool const wanted = semaphores || (!mechanism && chance(60));
    plan.dependences.push_back({static_cast<int>(d), set_for(dependence.consumer, dependence.producer,
                                                             semaphore_map(stage), wanted)});
  }
  if ((semaphores || !mechanism) && chance(20)) {
    auto const writer = pick(1, static_cast<int>(plan.pipeline.stages.size()) - 1);
    auto const reader = pick(0, writer - 1);
    PolicyMap whole;
    for (auto& dimension : whole.dimension) dimension.grouping = Grouping::all;
    plan.reuse_edges.push_back(
        {writer, reader, "shared", set_for(writer, reader, whole, semaphores || chance(50))});
  }
  return plan;
}

struct PlanLimits {
  int max_tiles = 5;                       ///< per stage
  int max_blocks = 20;                     ///< of the plan
  std::vector<Mechanism> mechanisms = {};  ///< empty: all and mixed ones, those with semaphores more often
};

inline rc::Gen<PlanOnMachine> plans(PlanLimits limits = {}) {
  return rc::gen::exec([limits] {
    Options options;
    options.max_rank = 2;
    options.max_extent = 4;
    options.max_splits = 2;
    options.max_accesses = 2;
    options.max_tiles = limits.max_tiles;
    auto pipeline = build_pipeline(options);
    std::int64_t blocks = 0;
    for (auto& stage : pipeline.stages) {
      if (blocks + stage.blocks() > limits.max_blocks) stage.splits = 1;
      blocks += stage.blocks();
    }
    auto const machine = small_machine();
    Mechanism mechanism = Mechanism::wait_kernel;
    bool mixed = false;
    if (!limits.mechanisms.empty()) {
      mechanism =
          limits
              .mechanisms[static_cast<std::size_t>(pick(0, static_cast<int>(limits.mechanisms.size()) - 1))];
    } else if (chance(35)) {
      mixed = true;
    } else if (chance(40)) {
      static constexpr Mechanism others[] = {Mechanism::fused, Mechanism::fused, Mechanism::pdl_tiles,
                                             Mechanism::pdl, Mechanism::stream_order};
      mechanism = others[pick(0, 4)];
    }
    return PlanOnMachine{build_plan(std::move(pipeline), machine, mixed ? nullptr : &mechanism), machine};
  });
}

}  // namespace tessera::random
