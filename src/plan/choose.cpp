// SPDX-License-Identifier: Apache-2.0
#include "tessera/plan/choose.hpp"

#include "plan/cuts.hpp"
#include "plan/forms.hpp"
#include "plan/search.hpp"

namespace tessera {

Expected<std::vector<Plan>> rank(CheckedPipeline const& checked, MachineProfile const& machine,
                                 Pricer const& price, PlanOptions const& options) {
  Search search(machine, price, options);
  auto const forms = fastest_forms(checked.pipeline(), machine, price);
  if (auto stream = search.stream_order(checked.pipeline(), forms); !stream)
    return tl::make_unexpected(std::move(stream).error());
  search.grid_waits(checked, forms);
  if (auto searched = search.tile_waits(checked); !searched)
    return tl::make_unexpected(std::move(searched).error());
  Cuts(checked, machine, price, options, search).run();
  search.refine(checked);
  search.ablate(checked);
  return search.finish();
}

Expected<Plan> choose(CheckedPipeline const& checked, MachineProfile const& machine, Pricer const& price,
                      PlanOptions const& options) {
  return rank(checked, machine, price, options).map([](std::vector<Plan> plans) {
    return std::move(plans.front());
  });
}

Expected<Plan> choose(OperatorGraph const& graph, Registry const& kernels, MachineProfile const& machine,
                      Pricer const& price, PlanOptions const& options) {
  return rank(graph, kernels, machine, price, options).map([](std::vector<Plan> plans) {
    return std::move(plans.front());
  });
}

}  // namespace tessera
