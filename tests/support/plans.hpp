// SPDX-License-Identifier: Apache-2.0
// Plans made by hand, and a machine of round numbers, for tests of what comes after the planner.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "tessera/measure/machine_profile.hpp"
#include "tessera/plan/plan.hpp"
#include "tessera/plan/progress.hpp"

namespace tessera::support {

/// No latency, no memory, no launch cost: a block takes flops / (1e12 flop/s per SM). One block per SM
/// (stages of make_stage take all its threads), `sms` SMs, blocks placed in launch order.
inline MachineProfile ideal_machine(int sms) {
  MachineProfile m;
  m.name = "ideal";
  m.gpu = "ideal";
  m.sms = sms;
  m.threads_per_sm = 1024;
  m.shared_bytes_per_sm = 1 << 20;
  m.shared_bytes_per_block = 1 << 20;
  m.clock_ghz = 1;
  m.matrix_flops_per_clock_per_sm = 1000;
  m.has_pdl = true;
  m.dispatches_in_launch_order = true;
  return m;
}

/// A stage over a grid (x, y) whose blocks fill an SM of ideal_machine and take `microseconds` there.
inline Stage make_stage(std::string name, int columns, int rows, double microseconds = 1, int splits = 1) {
  Stage s;
  s.name = name;
  s.output = std::move(name);
  s.grid = {{"x", columns}, {"y", rows}};
  s.splits = splits;
  s.resources = {1024, 32, 0};
  s.flops_per_block = microseconds * 1e6;
  return s;
}

/// A stage from a GEMM C[m, n] = A[m, k] * B[k, n] in tiles of tile_m x tile_n x tile_k, 16-bit operands and
/// output; the grid is (ceil(n / tile_n), ceil(m / tile_m)). Operand "a" is A, "b" is B.
struct GemmShape {
  std::int64_t m, n, k;
};
struct GemmTile {
  int m, n, k;
  int pipeline_stages = 2;
  int splits = 1;
  Resources resources = {256, 128, 0};
};
inline Stage make_gemm(std::string name, GemmShape shape, GemmTile tile, std::string a, std::string b) {
  constexpr double element = 2;
  Stage s;
  s.name = name;
  s.output = std::move(name);
  auto const columns = (shape.n + tile.n - 1) / tile.n;
  auto const rows = (shape.m + tile.m - 1) / tile.m;
  s.grid = {{"x", columns}, {"y", rows}};
  s.splits = tile.splits;
  s.resources = tile.resources;
  auto const k = static_cast<double>(shape.k) / tile.splits;
  // Rows beyond m are computed and thrown away, but not loaded: predicated off.
  auto const loaded_rows = std::min<double>(tile.m, static_cast<double>(shape.m));
  s.flops_per_block = 2.0 * tile.m * tile.n * k;
  s.operands = {{"a", std::move(a), element * loaded_rows * k,
                 element * static_cast<double>(shape.m) * static_cast<double>(shape.k)},
                {"b", std::move(b), element * tile.n * k,
                 element * static_cast<double>(shape.k) * static_cast<double>(shape.n)}};
  s.store_bytes_per_block = element * loaded_rows * tile.n;
  s.k_steps = std::max(1, static_cast<int>(std::ceil(k / tile.k)));
  s.pipeline_stages = tile.pipeline_stages;
  return s;
}

/// One range of producer coordinates, [begin, end).
inline TileRange range(TileExpr begin, TileExpr end) { return {std::move(begin), std::move(end), false}; }
inline TileRange just(TileExpr at) { return {at, at + TileExpr::constant(1), false}; }

/// consumer(x, y) reads all columns of row y of the producer through `operand`.
inline Dependence row_dependence(Pipeline const& p, int consumer, int producer, std::string operand = "a") {
  auto const columns = p.stages[static_cast<std::size_t>(producer)].grid[0].extent;
  Access access{{range(TileExpr::constant(0), TileExpr::constant(columns)), just(TileExpr::dimension(1))}};
  return {consumer, producer, std::move(operand), {access}, OnComplete::release_waiters, {}};
}

/// consumer(x, y) reads producer(x, y).
inline Dependence tile_dependence(int consumer, int producer, std::string operand = "a") {
  Access access{{just(TileExpr::dimension(0)), just(TileExpr::dimension(1))}};
  return {consumer, producer, std::move(operand), {access}, OnComplete::release_waiters, {}};
}

enum class Policy { tile_sync, row_sync, whole_grid };

inline SemaphoreMap map_of(Policy policy) {
  SemaphoreMap map;
  if (policy != Policy::tile_sync) map.dimension[0].grouping = Grouping::all;
  if (policy == Policy::whole_grid)
    for (auto& dimension : map.dimension) dimension.grouping = Grouping::all;
  return map;
}
inline char const* name_of(Policy policy) {
  return policy == Policy::tile_sync ? "TileSync" : policy == Policy::row_sync ? "RowSync" : "GridSync";
}

/// The optimizations of cuSync, section IV-C, as switches.
struct Switches {
  bool reorder_loads = false;       ///< R
  bool avoid_wait_kernel = false;   ///< W
  bool avoid_custom_order = false;  ///< T
};

/// A plan of any launches. Every dependence that their order does not keep, and those that `by_tiles` names,
/// under one policy, a semaphore set per producer.
inline Plan make_plan(Pipeline pipeline, MachineProfile const& machine, std::vector<Launch> launches,
                      Policy policy, std::vector<int> const& by_tiles, bool custom_order = true) {
  Plan plan;
  plan.pipeline = std::move(pipeline);
  plan.machine = machine.name;
  plan.launches = std::move(launches);
  for (auto const& stage : plan.pipeline.stages) {
    StagePlan planned;
    planned.custom_order = custom_order;
    planned.occupancy = occupancy(machine, stage.resources);
    planned.waves =
        planned.occupancy > 0 ? static_cast<double>(stage.blocks()) / (planned.occupancy * machine.sms) : 0;
    plan.stages.push_back(planned);
  }
  std::vector<int> set_of(plan.pipeline.stages.size(), -1);
  std::int64_t first = 0;
  for (int d = 0; d < static_cast<int>(plan.pipeline.dependences.size()); ++d) {
    int set = -1;
    auto const& dependence = plan.pipeline.dependences[static_cast<std::size_t>(d)];
    auto const producer = dependence.producer;
    if (std::find(by_tiles.begin(), by_tiles.end(), d) != by_tiles.end() ||
        kept_by(plan, dependence.consumer, producer, -1) == KeptBy::nothing) {
      auto& known = set_of[static_cast<std::size_t>(producer)];
      if (known < 0) {
        known = static_cast<int>(plan.semaphores.size());
        SemaphoreSet s{producer, map_of(policy), name_of(policy), first, 0};
        s.count = s.map.count(plan.pipeline.stages[static_cast<std::size_t>(producer)].tile_grid());
        first += s.count;
        plan.semaphores.push_back(s);
      }
      set = known;
    }
    plan.dependences.push_back({d, set});
  }
  return plan;
}

/// A plan of one mechanism for all stages.
inline Plan make_plan(Pipeline pipeline, MachineProfile const& machine, Mechanism mechanism,
                      Policy policy = Policy::tile_sync, Switches switches = {}) {
  auto launches = launches_for(mechanism, static_cast<int>(pipeline.stages.size()));
  for (auto& launch : launches)
    launch.wait_kernel = launch.start == LaunchStart::beside && !switches.avoid_wait_kernel;
  if (mechanism == Mechanism::fused)
    launches.front().workers = occupancy(machine, worker_resources(pipeline, launches.front())) * machine.sms;
  std::vector<int> by_tiles(uses_semaphores(mechanism) ? pipeline.dependences.size() : 0);
  std::iota(by_tiles.begin(), by_tiles.end(), 0);
  auto plan = make_plan(std::move(pipeline), machine, std::move(launches), policy, by_tiles,
                        uses_semaphores(mechanism) && !switches.avoid_custom_order);
  for (auto& stage : plan.stages) stage.reorder_loads = switches.reorder_loads;
  return plan;
}

/// Two GEMMs, the second reading the first's output row by row: x[rows, hidden] * w1[hidden, inner] *
/// w2[inner, hidden].
struct MlpShape {
  std::int64_t rows, hidden, inner;
};
inline Pipeline make_gemm_pair(MlpShape shape, GemmTile first, GemmTile second) {
  Pipeline p;
  p.name = "mlp";
  p.stages = {make_gemm("gemm1", {shape.rows, shape.inner, shape.hidden}, first, "x", "w1"),
              make_gemm("gemm2", {shape.rows, shape.hidden, shape.inner}, second, "gemm1", "w2")};
  p.dependences = {row_dependence(p, 1, 0)};
  return p;
}

/// Figure 1 of the paper: two GEMMs of 3 x 2 tiles, the second reading whole rows of the first.
inline Pipeline figure_one() {
  Pipeline p;
  p.name = "figure1";
  p.stages = {make_stage("gemm1", 3, 2), make_stage("gemm2", 3, 2)};
  p.stages[1].operands = {{"a", "gemm1", 0, 0}};
  p.dependences = {row_dependence(p, 1, 0)};
  return p;
}

/// Of the plan's largest persistent launch.
inline int most_workers(Plan const& plan) {
  int most = 0;
  for (auto const& launch : plan.launches) most = std::max(most, launch.workers);
  return most;
}

}  // namespace tessera::support
