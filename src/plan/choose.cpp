// SPDX-License-Identifier: Apache-2.0
#include "tessera/plan/choose.hpp"

#include "plan/cuts.hpp"
#include "plan/forms.hpp"
#include "plan/search.hpp"
#include "plan/tries.hpp"

namespace tessera {

std::int64_t blocks_of_search(CheckedPipeline const& checked) {
  std::int64_t blocks = 0;
  for (auto const& stage : checked.pipeline().stages) blocks += stage.blocks();
  return blocks + blocks_with_mechanisms(blocks);  // stream order first
}

Expected<std::vector<Plan>> rank(CheckedPipeline const& checked, MachineProfile const& machine,
                                 Pricer const& price, PlanOptions const& options) {
  Search search(machine, price, options);
  auto const forms = fastest_forms(checked.pipeline(), machine, price);
  if (auto stream = price_stream_order(search, checked.pipeline(), forms); !stream)
    return tl::make_unexpected(std::move(stream).error());
  try_grid_waits(search, checked, forms);
  if (auto searched = try_tile_waits(search, checked); !searched)
    return tl::make_unexpected(std::move(searched).error());
  Cuts(checked, machine, price, options, search).run();
  try_other_forms(search, checked);
  ablate(search, checked);
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
