// SPDX-License-Identifier: Apache-2.0
#include "plan_workload.hpp"

#include "tessera/shipped_kernels.hpp"

namespace tessera::cli {

Expected<Plan> plan_workload(Workload const& workload, MachineProfile const& machine,
                             PlanOptions const& options, PriceObserver const& observer) {
  if (auto const* graph = std::get_if<OperatorGraph>(&workload))
    return choose_by_simulation(*graph, shipped_kernels(), machine, options, observer);
  auto const checked = check(std::get<Pipeline>(workload));
  if (!checked) return tl::make_unexpected(checked.error());
  return choose_by_simulation(*checked, machine, options, observer);
}

}  // namespace tessera::cli
