// SPDX-License-Identifier: Apache-2.0
#include "tessera/tune/promised.hpp"

#include <algorithm>
#include <utility>

#include "tessera/simulate/rank.hpp"
#include "tessera/simulate/simulate.hpp"
#include "tessera/tune/plans.hpp"

namespace tessera {
namespace {

constexpr int k_of_each = 8;

}  // namespace

Expected<Plan> priced_library_plan(OperatorGraph const& graph, Registry const& kernels,
                                   MachineProfile const& machine) {
  auto plan = library_plan(graph, kernels, machine);
  if (!plan) return plan;
  if (auto const simulated = simulate(*plan, machine, {false}))
    plan->predicted_us = static_cast<double>(simulated->end) * 1e-6;  // picoseconds
  return plan;
}

Expected<Found> promised_plans(OperatorGraph const& graph, Registry const& kernels,
                               MachineProfile const& machine) {
  Found found;
  auto const add = [&](Plan plan, bool baseline) {
    auto name = plan_name(plan);
    auto& all = found.candidates;
    if (std::any_of(all.begin(), all.end(), [&](TuneCandidate const& one) { return one.name == name; }))
      return;
    found.times.push_back(plan.predicted_us);
    all.push_back({std::move(name), baseline ? "library" : mechanism_text(plan), baseline, std::move(plan)});
  };
  auto library = priced_library_plan(graph, kernels, machine);
  if (!library) return tl::make_unexpected(library.error());
  add(std::move(*library), true);
  // The planner may prefer a library's products, or ours for few rows; what the others take is measured
  // beside them.
  Registry own, others;
  for (auto const& kernel : kernels.kernels()) {
    if (!kernel.library || kernel.kind != OperatorKind::gemm) (void)own.add(kernel);
    if (kernel.most_rows == 0) (void)others.add(kernel);
  }
  std::vector<Registry const*> all{&kernels, &own};
  if (generates(graph)) all.push_back(&others);
  for (auto const* const of : all)
    for (auto const& mechanisms :
         {std::vector<Mechanism>{}, {Mechanism::stream_order}, {Mechanism::stream_order, Mechanism::pdl}}) {
      PlanOptions options;
      options.mechanisms = mechanisms;
      options.keep = k_of_each;
      auto plans = rank_by_simulation(graph, *of, machine, options);
      if (!plans && of == &kernels) return tl::make_unexpected(plans.error());
      if (!plans) break;  // a layer's products add residuals, as the library's alone do
      for (auto& plan : *plans) add(std::move(plan), false);
    }
  return found;
}

}  // namespace tessera
