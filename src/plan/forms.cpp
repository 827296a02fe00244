// SPDX-License-Identifier: Apache-2.0
#include "plan/forms.hpp"

#include <algorithm>
#include <map>

#include "plan/assemble.hpp"
#include "plan/cuts.hpp"
#include "tessera/plan/orders.hpp"

namespace tessera {
namespace {

bool chooses_band(Stage const& stage) {
  return stage.can.bands && !stage.can.any_order && stage.grid.size() >= 2;
}

/// Blocks of a persistent grid, where it has fewer than tiles.
std::optional<int> persistent_grid(Stage const& stage, MachineProfile const& machine) {
  auto const slots = std::int64_t{occupancy(machine, stage.resources)} * machine.sms;
  bool const can = stage.can.persist && stage.splits == 1 && machine.kernels.count(stage.kernel) != 0;
  if (!can || stage.blocks() <= slots) return std::nullopt;
  return static_cast<int>(slots);
}

/// Those of these heights that the kernel knows and that differ on this grid.
std::vector<std::optional<int>> bands_of(Stage const& stage, std::initializer_list<int> heights) {
  if (!chooses_band(stage)) return {std::nullopt};
  std::vector<std::optional<int>> result;
  std::vector<TileOrder> orders;
  for (int height : heights) {
    // Of a kernel that is not compiled for columns, the tallest band is the other extreme.
    if (height == 0 && !knows_band(stage, 0))
      height = *std::max_element(stage.can.heights.begin(), stage.can.heights.end());
    if (!knows_band(stage, height)) continue;
    auto const order = make_band_order(stage, {height, stage.cluster_rows, stage.cluster_columns});
    if (std::any_of(orders.begin(), orders.end(),
                    [&](auto const& other) { return other.table == order.table; }))
      continue;
    orders.push_back(order);
    result.push_back(height);
  }
  return result.empty() ? std::vector<std::optional<int>>{std::nullopt} : result;
}

std::vector<StageRecipe> forms(Stage const& stage, MachineProfile const& machine, bool persistent,
                               std::initializer_list<int> heights) {
  auto const blocks = persistent ? persistent_grid(stage, machine) : std::nullopt;
  std::vector<StageRecipe> result;
  for (auto const& band : bands_of(stage, heights)) {
    if (blocks) result.push_back({band, blocks});
    result.push_back({band, blocks ? std::optional(0) : std::nullopt});
  }
  return result;
}

bool has_persistent_grids(Mechanism mechanism) {
  return mechanism != Mechanism::fused && mechanism != Mechanism::wait_kernel;
}

bool has_producer(Pipeline const& pipeline, std::size_t stage, std::string const& operand) {
  return std::any_of(pipeline.dependences.begin(), pipeline.dependences.end(), [&](Dependence const& d) {
    return d.consumer == static_cast<int>(stage) && d.operand == operand;
  });
}

}  // namespace

std::vector<StageRecipe> forms_of(Stage const& stage, MachineProfile const& machine) {
  return forms(stage, machine, true, {0, 1});
}

std::vector<StageRecipe> all_forms_of(Stage const& stage, MachineProfile const& machine,
                                      Mechanism mechanism) {
  return forms(stage, machine, has_persistent_grids(mechanism), {0, 1, 4, 8});
}

std::vector<std::vector<StageRecipe>> forms_behind_tiles(Pipeline const& pipeline,
                                                         MachineProfile const& machine, Mechanism mechanism) {
  std::vector<std::vector<StageRecipe>> result;
  for (int const height : {1, 4})
    for (bool const persistent : {false, true}) {
      std::vector<StageRecipe> one;
      for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
        auto const& stage = pipeline.stages[s];
        auto const taller = height == 4 && !knows_band(stage, 4) ? 8 : height;
        StageRecipe form;
        form.band = bands_of(stage, {taller, 1}).front();
        auto const blocks = has_persistent_grids(mechanism) ? persistent_grid(stage, machine) : std::nullopt;
        if (blocks) form.persistent_blocks = s == 0 || persistent ? *blocks : 0;
        one.push_back(form);
      }
      if (std::find(result.begin(), result.end(), one) == result.end()) result.push_back(std::move(one));
    }
  return result;
}

Pipeline isolated(Pipeline const& pipeline, std::size_t s) {
  Pipeline alone;
  alone.name = pipeline.name;
  alone.stages.push_back(pipeline.stages[s]);
  for (auto& operand : alone.stages.front().operands)
    if (has_producer(pipeline, s, operand.name)) operand.unique_bytes = 0;
  return alone;
}

std::optional<Alone> fastest_alone(Pipeline const& stage, MachineProfile const& machine, Pricer const& price,
                                   Recipe recipe, std::size_t most) {
  std::optional<Alone> best;
  auto const choices = forms_of(stage.stages.front(), machine);
  for (std::size_t i = 0; i < std::min(most, choices.size()); ++i) {
    recipe.stages = {choices[i]};
    auto plan = assemble(stage, {}, machine, recipe);
    if (!plan) continue;
    auto const timeline = price(*plan);
    if (!timeline) continue;
    auto const us = static_cast<double>(timeline->end) * 1e-6;
    if (!best || us < best->us) best = {std::move(*plan), recipe, us};
  }
  return best;
}

std::vector<StageRecipe> fastest_forms(Pipeline const& pipeline, MachineProfile const& machine,
                                       Pricer const& price) {
  std::vector<StageRecipe> result;
  std::map<std::string, StageRecipe> known;
  bool any = false;
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
    result.emplace_back();
    if (forms_of(pipeline.stages[s], machine).size() < 2) continue;
    any = true;
    auto const alone = isolated(pipeline, s);
    auto const [place, fresh] = known.try_emplace(identity_of(alone, {}));
    if (fresh)
      if (auto const best = fastest_alone(alone, machine, price, {}))
        place->second = best->recipe.stages.front();
    result.back() = place->second;
  }
  return any ? result : std::vector<StageRecipe>{};
}

}  // namespace tessera
