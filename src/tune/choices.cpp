// SPDX-License-Identifier: Apache-2.0
#include "tune/choices.hpp"

#include <algorithm>

#include "tessera/check/check.hpp"

namespace tessera {
namespace {

Policy policy_of(Pipeline const& pipeline, int dependence, int columns) {
  auto policies = generate_policies(pipeline, dependence);
  auto const producer = pipeline.dependences[static_cast<std::size_t>(dependence)].producer;
  auto const grid = pipeline.stages[static_cast<std::size_t>(producer)].tile_grid();
  if (pipeline.dependences[static_cast<std::size_t>(dependence)].policy)
    return policies.front();  // the user's
  auto policy = policies.front();
  PolicyMap map;
  if (columns == k_whole_row)
    map.dimension[0].grouping = Grouping::all;
  else if (columns > 1)
    map.dimension[0] = {Grouping::block, columns};
  policy.map = normalized(map, grid);
  policy.name = policy_name(
      policy.map, grid, reads_like_convolution(pipeline.dependences[static_cast<std::size_t>(dependence)]));
  return policy;
}

}  // namespace

Expected<Plan> plan_of(OperatorGraph const& graph, Choice const& choice, MachineProfile const& machine) {
  std::vector<TileChoice> tiles;
  for (auto const& stage : choice.stages) tiles.push_back(stage.tile);
  auto const tiled = tile(graph, tiles);
  if (!tiled) return tl::make_unexpected(tiled.error());
  auto const checked = check(*tiled);
  if (!checked) return tl::make_unexpected(checked.error());
  Recipe recipe;
  recipe.mechanism = choice.mechanism;
  recipe.reorder_loads = choice.early_loads;
  recipe.chained = choice.chained;
  for (std::size_t s = 0; s < choice.stages.size(); ++s) {
    recipe.stages.push_back(choice.stages[s].how);
    // A persistent grid of no more tiles than blocks is one block a tile.
    auto& blocks = recipe.stages.back().persistent_blocks;
    if (blocks && *blocks >= tiled->stages[s].blocks()) blocks = 0;
  }
  if (uses_semaphores(choice.mechanism))
    for (std::size_t d = 0; d < tiled->dependences.size(); ++d)
      recipe.policies.push_back(policy_of(*tiled, static_cast<int>(d), choice.columns_per_semaphore));
  auto plan = build_plan(*checked, machine, recipe);
  if (!plan) return plan;
  for (std::size_t s = 0; s < choice.stages.size(); ++s) plan->stages[s].variant = choice.stages[s].variant;
  return plan;
}

OperatorGraph alone(OperatorGraph const& graph, std::size_t index) {
  auto result = graph;
  result.operators = {graph.operators[index]};
  for (auto& input : result.operators.front().inputs) {
    if (input.producer.empty()) continue;
    for (auto const& op : graph.operators)
      if (op.name == input.producer) input.buffer = op.output.empty() ? op.name : op.output;
    input.producer.clear();
  }
  return result;
}

std::vector<TileChoice> kernels_for(OperatorGraph const& graph, std::size_t index, Registry const& kernels,
                                    MachineProfile const& machine) {
  auto const& op = graph.operators[index];
  std::vector<TileChoice> result;
  for (auto const& kernel : kernels.for_architecture(machine.architecture)) {
    if (kernel.family == "published" || !computes(kernel, graph, op)) continue;
    if (kernel.most_rows > 0 && !generates(graph)) continue;  // as the planner takes them
    if (kernel.whole || occupancy(machine, find_form(kernel, op.epilogue, graph.type)->resources) > 0)
      result.push_back({kernel, kernel.splits == k_any_splits ? 1 : kernel.splits});
  }
  return result;
}

Diagnostics no_kernel(Operator const& op, MachineProfile const& machine) {
  Diagnostic d;
  d.code = "E0305";
  d.where = op.where;
  d.message = "no registered kernel computes " + op.name + " on " + machine.name;
  d.suggestion = "register one (docs/extending.md), or choose another type or size";
  return {d};
}

std::vector<std::vector<StageChoice>> combinations(std::vector<std::vector<StageChoice>> const& lists,
                                                   std::size_t most) {
  std::size_t product = 1;
  for (auto const& list : lists) {
    if (list.empty()) return {};
    product = std::min(product * list.size(), most + 1);
  }
  std::vector<std::vector<StageChoice>> result;
  if (product > most) {
    std::vector<StageChoice> first;
    for (auto const& list : lists) first.push_back(list.front());
    result.push_back(first);
    for (std::size_t s = 0; s < lists.size(); ++s)
      for (std::size_t i = 1; i < lists[s].size() && result.size() < most; ++i) {
        result.push_back(first);
        result.back()[s] = lists[s][i];
      }
    return result;
  }
  result.emplace_back();
  for (auto const& list : lists) {
    std::vector<std::vector<StageChoice>> longer;
    for (auto const& shorter : result)
      for (auto const& one : list) {
        longer.push_back(shorter);
        longer.back().push_back(one);
      }
    result = std::move(longer);
  }
  return result;
}

std::string families_of(Plan const& plan, Registry const& kernels) {
  std::string text;
  for (auto const& stage : plan.pipeline.stages) {
    auto const* kernel = kernels.find(stage.kernel);
    auto const family = kernel == nullptr ? stage.kernel : kernel->family;
    if (text.find(family) == std::string::npos) text += (text.empty() ? "" : " + ") + family;
  }
  return text;
}

bool is_library_plan(Plan const& plan, Registry const& kernels) {
  return std::all_of(plan.pipeline.stages.begin(), plan.pipeline.stages.end(), [&](Stage const& stage) {
    auto const* kernel = kernels.find(stage.kernel);
    return kernel != nullptr && kernel->library;
  });
}

}  // namespace tessera
