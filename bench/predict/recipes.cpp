// SPDX-License-Identifier: Apache-2.0
#include "bench/predict/recipes.hpp"

#include <istream>

#include "tessera/check/check.hpp"
#include "tessera/plan/orders.hpp"
#include "tessera/shipped_kernels.hpp"

namespace tessera::bench {
namespace {

constexpr char k_prefix[] = "gemm_";

Expected<KernelEntry> find(std::string const& name) {
  if (auto const* kernel = shipped_kernels().find(k_prefix + name)) return *kernel;
  Diagnostic d;
  d.code = "E0305";
  d.message = "the catalogue has no GEMM of shape " + name;
  return tl::make_unexpected(Diagnostics{d});
}

Operator gemm(char const* name, std::int64_t m, std::int64_t n, std::int64_t k) {
  Operator op;
  op.name = name;
  op.m = m;
  op.n = n;
  op.k = k;
  op.inputs = {{"a", "x", "", ReadPattern::rows}, {"b", "w1", "", ReadPattern::rows}};
  return op;
}

StageRecipe recipe_of(Half const& half, Stage const& stage, MachineProfile const& machine) {
  // A kernel of two heights was asked for others, and rounded them.
  int const band = knows_band(stage, half.band) ? half.band : half.band == 1 ? 1 : 8;
  return {band, half.persistent ? machine.sms : 0};
}

Expected<Plan> built(OperatorGraph const& graph, std::vector<Half> const& halves, Recipe recipe,
                     MachineProfile const& machine) {
  std::vector<TileChoice> choices;
  for (auto const& half : halves) {
    auto kernel = find(half.kernel);
    if (!kernel) return tl::make_unexpected(kernel.error());
    choices.push_back({std::move(*kernel), 1});
  }
  auto const tiled = tile(graph, choices);
  if (!tiled) return tl::make_unexpected(tiled.error());
  auto const checked = check(*tiled);
  if (!checked) return tl::make_unexpected(checked.error());
  for (std::size_t s = 0; s < halves.size(); ++s)
    recipe.stages.push_back(recipe_of(halves[s], tiled->stages[s], machine));
  return build_plan(*checked, machine, recipe);
}

std::string words_of(Plan const& plan, std::size_t s) {
  auto const& stage = plan.stages[s];
  auto const band = stage.order.bands ? stage.order.bands->rows : 1;
  return plan.pipeline.stages[s].kernel.substr(sizeof k_prefix - 1) + " " + std::to_string(band) +
         (stage.persistent_blocks > 0 ? " 1" : " 0");
}

}  // namespace

OperatorGraph mlp_graph(MlpShape const& shape) {
  OperatorGraph graph;
  graph.name = "mlp";
  graph.operators = {gemm("gemm1", shape.tokens, shape.hidden * (shape.swiglu ? 2 : 1), shape.model),
                     gemm("gemm2", shape.tokens, shape.model, shape.hidden)};
  graph.operators[0].epilogue = shape.swiglu ? Epilogue::swiglu : Epilogue::gelu;
  graph.operators[1].inputs = {{"a", "gemm1", "gemm1", ReadPattern::rows},
                               {"b", "w2", "", ReadPattern::rows}};
  return graph;
}

std::istream& operator>>(std::istream& in, Half& half) {
  return in >> half.kernel >> half.band >> half.persistent;
}

std::istream& operator>>(std::istream& in, Pair& pair) {
  std::string mechanism;
  in >> mechanism >> pair.first >> pair.second >> pair.columns_per_semaphore >> pair.early_weights >>
      pair.chained;
  if (mechanism == "pdl") pair.mechanism = Mechanism::pdl;
  if (mechanism == "tiles") pair.mechanism = Mechanism::pdl_tiles;
  return in;
}

std::string words_of(Plan const& plan) {
  auto const mechanism = mechanism_of(plan);
  if (plan.stages.size() != 2 || !mechanism || mechanism == Mechanism::fused) return "none";
  for (auto const& stage : plan.pipeline.stages)
    if (stage.kernel.rfind(k_prefix, 0) != 0) return "none";
  std::string text = *mechanism == Mechanism::pdl         ? "pdl "
                     : *mechanism == Mechanism::pdl_tiles ? "tiles "
                                                          : "stream ";
  text += words_of(plan, 0) + " " + words_of(plan, 1);
  int columns = 1;
  if (!plan.semaphores.empty()) {
    auto const& map = plan.semaphores.front().map.dimension[0];
    columns = map.grouping == Grouping::all ? 0 : map.grouping == Grouping::block ? map.width : 1;
  }
  text += " " + std::to_string(columns);
  text += plan.stages[1].reorder_loads ? " 1" : " 0";
  return text + (plan.launches.front().start == LaunchStart::early ? " 1" : " 0");
}

Expected<Plan> plan_of(MlpShape const& shape, Pair const& pair, MachineProfile const& machine) {
  Recipe recipe;
  recipe.mechanism = pair.mechanism;
  recipe.reorder_loads = pair.early_weights;
  recipe.avoid_custom_order = false;
  recipe.chained = pair.chained;
  if (pair.mechanism == Mechanism::pdl_tiles) {
    Policy policy;
    policy.name = pair.columns_per_semaphore == 0 ? "RowSync" : "TileSync";
    auto& columns = policy.map.dimension[0];
    if (pair.columns_per_semaphore == 0) columns.grouping = Grouping::all;
    if (pair.columns_per_semaphore > 1) columns = {Grouping::block, pair.columns_per_semaphore};
    recipe.policies = {policy};
  }
  return built(mlp_graph(shape), {pair.first, pair.second}, std::move(recipe), machine);
}

Expected<Plan> plan_of(std::int64_t rows, std::int64_t columns, std::int64_t depth, Half const& half,
                       MachineProfile const& machine) {
  OperatorGraph graph;
  graph.name = "gemm";
  graph.operators = {gemm("gemm1", rows, columns, depth)};
  return built(graph, {half}, {}, machine);
}

}  // namespace tessera::bench
