// SPDX-License-Identifier: Apache-2.0
#include "bench/predict/candidates.hpp"

#include <algorithm>
#include <limits>

#include "tessera/check/check.hpp"
#include "tessera/plan/build.hpp"
#include "tessera/shipped_kernels.hpp"
#include "tessera/simulate/in_turns.hpp"

namespace tessera::bench {
namespace {

KernelEntry const* find(std::string const& name) { return shipped_kernels().find("gemm_" + name); }

Diagnostics unknown(std::string const& name) {
  Diagnostic d;
  d.code = "E0305";
  d.message = "the catalogue has no GEMM of shape " + name;
  return {d};
}

/// Column by column within bands of rows, cluster by cluster, as BandScheduler takes them; without the tiles
/// that only pad a cluster.
TileOrder band_order(Stage const& stage, KernelEntry const& kernel, int band) {
  auto const columns = static_cast<int>(stage.grid[0].extent), rows = static_cast<int>(stage.grid[1].extent);
  auto const up = [](int value, int unit) { return (value + unit - 1) / unit; };
  int const high = up(rows, kernel.cluster_m), wide = up(columns, kernel.cluster_n);
  int const height = std::clamp(band <= 0 ? high : up(band, kernel.cluster_m), 1, high);
  TileOrder order;
  order.name = band <= 0 ? "columns" : "bands of " + std::to_string(band);
  for (int first = 0; first < high; first += height) {
    int const here = std::min(height, high - first);
    for (int i = 0; i < here * wide; ++i)
      for (int c = 0; c < kernel.cluster_m * kernel.cluster_n; ++c) {
        int const row = (first + i % here) * kernel.cluster_m + c % kernel.cluster_m;
        int const column = i / here * kernel.cluster_n + c / kernel.cluster_m;
        if (row < rows && column < columns) order.table.push_back(row * columns + column);
      }
  }
  return order;
}

void set_half(Plan& plan, std::size_t s, HalfChoice const& half, KernelEntry const& kernel,
              MachineProfile const& machine) {
  auto& planned = plan.stages[s];
  planned.order = band_order(plan.pipeline.stages[s], kernel, half.band);
  planned.custom_order = true;
  planned.persistent_blocks = half.persistent ? machine.sms : 0;
}

Operator gemm(char const* name, std::int64_t m, std::int64_t n, std::int64_t k) {
  Operator op;
  op.name = name;
  op.m = m;
  op.n = n;
  op.k = k;
  return op;
}

double simulated(Expected<Plan> const& plan, MachineProfile const& machine) {
  if (!plan) return std::numeric_limits<double>::infinity();
  auto const timeline = simulate(*plan, machine, {false});
  return timeline ? static_cast<double>(timeline->end) / 1e6 : std::numeric_limits<double>::infinity();
}

}  // namespace

std::string text(PairChoice const& choice) {
  auto const half = [](HalfChoice const& one) {
    return one.kernel + (one.band == 0 ? " columns" : " bands of " + std::to_string(one.band)) +
           (one.persistent ? " persistent" : "");
  };
  bool const tiles = choice.mechanism == Mechanism::pdl_tiles;
  auto const columns = choice.columns_per_semaphore;
  std::string name = "tessera stream";
  if (choice.mechanism == Mechanism::pdl) name = "tessera pdl";
  if (tiles) name = columns == 0 ? "tessera row" : "tessera tile";
  return name + " | " + half(choice.first) + " > " + half(choice.second) +
         (tiles ? columns == 0 ? ", a row" : ", " + std::to_string(columns) + " tiles" : "") +
         (choice.early_weights ? ", early weights" : "") + (choice.chained ? ", chained" : "");
}

MachineProfile machine_for(PairChoice const& choice, MachineProfile const& machine) {
  auto result = machine;
  if (choice.chained) result.launch_ns = std::min(machine.launch_ns, machine.pdl_grid_wait_ns);
  return result;
}

Expected<Plan> plan_of(MlpShape const& shape, PairChoice const& choice, MachineProfile const& machine) {
  auto const* first = find(choice.first.kernel);
  auto const* second = find(choice.second.kernel);
  if (first == nullptr) return tl::make_unexpected(unknown(choice.first.kernel));
  if (second == nullptr) return tl::make_unexpected(unknown(choice.second.kernel));
  OperatorGraph graph;
  graph.name = "mlp";
  graph.operators = {gemm("gemm1", shape.tokens, shape.hidden * (shape.swiglu ? 2 : 1), shape.model),
                     gemm("gemm2", shape.tokens, shape.model, shape.hidden)};
  graph.operators[0].epilogue = shape.swiglu ? Epilogue::swiglu : Epilogue::gelu;
  graph.operators[0].inputs = {{"a", "x", "", ReadPattern::rows}, {"b", "w1", "", ReadPattern::rows}};
  graph.operators[1].inputs = {{"a", "gemm1", "gemm1", ReadPattern::rows},
                               {"b", "w2", "", ReadPattern::rows}};
  auto const tiled = tile(graph, {{*first, 1}, {*second, 1}});
  if (!tiled) return tl::make_unexpected(tiled.error());
  auto const checked = check(*tiled);
  if (!checked) return tl::make_unexpected(checked.error());
  Recipe recipe;
  recipe.mechanism = choice.mechanism;
  recipe.reorder_loads = choice.early_weights;
  recipe.avoid_custom_order = false;
  if (choice.mechanism == Mechanism::pdl_tiles) {
    Policy policy;
    policy.name = choice.columns_per_semaphore == 0 ? "RowSync" : "TileSync";
    auto& columns = policy.map.dimension[0];
    if (choice.columns_per_semaphore == 0) columns.grouping = Grouping::all;
    if (choice.columns_per_semaphore > 1) columns = {Grouping::block, choice.columns_per_semaphore};
    recipe.policies = {policy};
  }
  auto plan = build_plan(*checked, machine, recipe);
  if (!plan) return plan;
  set_half(*plan, 0, choice.first, *first, machine);
  set_half(*plan, 1, choice.second, *second, machine);
  return plan;
}

Expected<Plan> plan_of(std::int64_t rows, std::int64_t columns, std::int64_t depth, HalfChoice const& half,
                       MachineProfile const& machine) {
  auto const* kernel = find(half.kernel);
  if (kernel == nullptr) return tl::make_unexpected(unknown(half.kernel));
  OperatorGraph graph;
  graph.name = "gemm";
  graph.operators = {gemm("gemm1", rows, columns, depth)};
  graph.operators[0].inputs = {{"a", "x", "", ReadPattern::rows}, {"b", "w1", "", ReadPattern::rows}};
  auto const tiled = tile(graph, {{*kernel, 1}});
  if (!tiled) return tl::make_unexpected(tiled.error());
  auto const checked = check(*tiled);
  if (!checked) return tl::make_unexpected(checked.error());
  auto plan = build_plan(*checked, machine, {});
  if (plan) set_half(*plan, 0, half, *kernel, machine);
  return plan;
}

namespace {

constexpr std::size_t k_halves = 6, k_pairs = 8;

bool by_time(Priced const& a, Priced const& b) { return a.us < b.us; }

/// The fastest way to run each kernel alone as one of the two GEMMs; fastest kernel first, k_halves at most.
std::vector<HalfChoice> best_halves(MlpShape const& shape, bool first, MachineProfile const& machine,
                                    Runs const& runs) {
  struct Half {
    HalfChoice choice;
    double us;
  };
  auto const columns = first ? shape.hidden * (shape.swiglu ? 2 : 1) : shape.model;
  auto const depth = first ? shape.model : shape.hidden;
  std::vector<Half> halves;
  auto const epilogue = !first ? Epilogue::none : shape.swiglu ? Epilogue::swiglu : Epilogue::gelu;
  for (auto const& kernel : shipped_kernels().for_architecture(machine.architecture)) {
    if (kernel.family != "gemm_sm90" || kernel.splits != 1 || kernel.tile_m >= 2 * shape.tokens) continue;
    if (find_form(kernel, epilogue, ElementType::bf16) == nullptr) continue;
    auto const name = kernel.name.substr(5);
    if (runs && !runs(name, first && shape.swiglu)) continue;
    Half best{{}, std::numeric_limits<double>::infinity()};
    // Of what costs the same, the first: alone, no kernel is faster row by row
    // (results/h200/gemm_alone.json).
    for (int const band : {0, 1})
      for (bool const persistent : {true, false}) {
        HalfChoice const half{name, band, persistent};
        auto const us = simulated(plan_of(shape.tokens, columns, depth, half, machine), machine);
        if (us < best.us) best = {half, us};
      }
    halves.push_back(best);
  }
  std::stable_sort(halves.begin(), halves.end(), [](Half const& a, Half const& b) { return a.us < b.us; });
  std::vector<HalfChoice> result;
  for (std::size_t i = 0; i < std::min(k_halves, halves.size()); ++i) result.push_back(halves[i].choice);
  return result;
}

/// Pairs of the best halves in stream order.
std::vector<Priced> stream_pairs(MlpShape const& shape, MachineProfile const& machine, Runs const& runs) {
  std::vector<Priced> pairs;
  for (auto const& first : best_halves(shape, true, machine, runs))
    for (auto const& second : best_halves(shape, false, machine, runs)) {
      PairChoice const choice{Mechanism::stream_order, first, second, 1, false};
      pairs.push_back({choice, simulated(plan_of(shape, choice, machine), machine)});
    }
  std::stable_sort(pairs.begin(), pairs.end(), by_time);
  return pairs;
}

/// The machine at the clock that the best pairs share when they run in turns.
MachineProfile at_shared_clock(MlpShape const& shape, std::vector<Priced> const& pairs,
                               MachineProfile const& machine) {
  std::vector<Plan> plans;
  for (std::size_t i = 0; i < std::min(k_pairs, pairs.size()); ++i)
    if (auto plan = plan_of(shape, pairs[i].choice, machine)) plans.push_back(std::move(*plan));
  auto const turns = simulate_in_turns(plans, machine, {false});
  if (!turns || turns->empty()) return machine;
  auto result = machine;
  result.power_limit_w = 0;
  result.clock_ghz = 0;
  for (auto const& turn : *turns) result.clock_ghz = std::max(result.clock_ghz, turn.clock_ghz);
  return result;
}

}  // namespace

std::vector<Priced> ranked(MlpShape const& shape, MachineProfile const& limited, Runs const& runs) {
  auto const machine = at_shared_clock(shape, stream_pairs(shape, limited, runs), limited);
  auto pairs = stream_pairs(shape, machine, runs);
  auto const add = [&](PairChoice const& choice) {
    pairs.push_back({choice, simulated(plan_of(shape, choice, machine), machine_for(choice, machine))});
  };
  std::vector<PairChoice> bases;
  for (std::size_t i = 0; i < std::min(k_pairs, pairs.size()); ++i) bases.push_back(pairs[i].choice);
  // A pair that fits badly in stream order may fit well when its waves are shared: the same tiles twice.
  for (char const* const kernel : {"128x256x64_2x1", "128x192x64_2x1", "128x128x64_2x1"})
    if (shape.tokens >= 256 && (!runs || runs(kernel, shape.swiglu)))
      bases.push_back({Mechanism::stream_order, {kernel, 0, true}, {kernel, 0, true}, 1, false});
  for (auto base : bases)
    for (bool const early : {false, true}) {
      base.early_weights = base.chained = early;
      base.mechanism = Mechanism::pdl;
      add(base);
      base.mechanism = Mechanism::pdl_tiles;
      for (int const columns : {0, 1})
        for (int const band : {1, 4})
          for (bool const persistent : {false, true}) {
            auto choice = base;
            choice.columns_per_semaphore = columns;
            choice.first.band = choice.second.band = band;
            choice.second.persistent = persistent;
            if (early) add(choice);
          }
    }
  std::stable_sort(pairs.begin(), pairs.end(), by_time);
  return pairs;
}

}  // namespace tessera::bench
