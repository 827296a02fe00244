// SPDX-License-Identifier: Apache-2.0
#include "tessera/plan/written_out.hpp"

#include <fmt/format.h>

#include "tessera/plan/build.hpp"

namespace tessera {
namespace {

Expected<Plan> build(Loop const& loop, MachineProfile const& machine, int iterations, Mechanism mechanism) {
  auto const checked = check(loop, iterations);
  if (!checked) return tl::make_unexpected(checked.error());
  Recipe recipe;
  recipe.mechanism = mechanism;
  recipe.stages.assign(checked->pipeline().stages.size(), {std::nullopt, 0});
  return build_plan(*checked, machine, recipe);
}

}  // namespace

Expected<Plan> plan_launches_written_out(Loop const& loop, MachineProfile const& machine, int iterations) {
  return build(loop, machine, iterations, machine.has_pdl ? Mechanism::pdl : Mechanism::stream_order);
}

Expected<Plan> plan_persistent_written_out(Loop const& loop, MachineProfile const& machine, int iterations,
                                           int workers) {
  auto plan = build(loop, machine, iterations, Mechanism::fused);
  if (!plan || workers == 0) return plan;
  auto& most = plan->launches.front().workers;
  if (workers < 0 || workers > most) {
    Diagnostic one;
    one.code = "E0301";
    one.where = loop.body.where;
    one.message = fmt::format("{} workers, and {} fit on {}", workers, most, machine.name);
    one.suggestion = fmt::format("ask for {} at most", most);
    return refuse(std::move(one));
  }
  most = workers;
  return plan;
}

}  // namespace tessera
