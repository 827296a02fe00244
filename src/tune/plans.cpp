// SPDX-License-Identifier: Apache-2.0
#include "tessera/tune/plans.hpp"

#include <algorithm>

#include "tessera/check/check.hpp"
#include "tessera/plan/build.hpp"
#include "tessera/plan/resize.hpp"
#include "tune/choices.hpp"

namespace tessera {

Expected<Plan> library_plan(OperatorGraph const& graph, Registry const& kernels,
                            MachineProfile const& machine) {
  Choice choice;
  for (std::size_t i = 0; i < graph.operators.size(); ++i) {
    auto const& op = graph.operators[i];
    auto const all = kernels_for(graph, i, kernels, machine);
    auto found =
        std::find_if(all.begin(), all.end(), [](TileChoice const& one) { return one.kernel.library; });
    if (found == all.end())
      found = std::find_if(all.begin(), all.end(),
                           [](TileChoice const& one) { return one.kernel.can.run_alone; });
    if (found == all.end()) return tl::make_unexpected(no_kernel(op, machine));
    choice.stages.push_back({*found, {}, ""});
  }
  return plan_of(graph, choice, machine);
}

std::optional<Plan> tuned_plan(TuneCache const& cache, TuneKey const& key, OperatorGraph const& graph,
                               Registry const& kernels, MachineProfile const& machine,
                               std::function<bool(Plan const&)> const& runs) {
  for (auto const* const entry : nearest(cache, key))
    if (auto plan = resize(entry->plan, graph, kernels, machine); plan && (!runs || runs(*plan)))
      return *plan;
  return {};
}

}  // namespace tessera
