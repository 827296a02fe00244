// SPDX-License-Identifier: Apache-2.0
#include "tessera/plan/choose.hpp"

#include "plan/cuts.hpp"
#include "plan/search.hpp"

namespace tessera {

Expected<Plan> choose(CheckedPipeline const& checked, MachineProfile const& machine, Pricer const& price,
                      PlanOptions const& options) {
  Search search(machine, price, options);
  if (auto stream = search.stream_order(checked.pipeline()); !stream)
    return tl::make_unexpected(std::move(stream).error());
  search.grid_waits(checked);
  if (auto searched = search.tile_waits(checked); !searched)
    return tl::make_unexpected(std::move(searched).error());
  Cuts(checked, machine, price, options, search).run();
  search.ablate(checked);
  return search.finish();
}

}  // namespace tessera
