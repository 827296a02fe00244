// SPDX-License-Identifier: Apache-2.0
#include "tessera/plan/choose.hpp"

#include <algorithm>

#include "plan/awaited_pairs.hpp"
#include "plan/cuts.hpp"
#include "plan/forms.hpp"
#include "plan/search.hpp"
#include "plan/tries.hpp"

namespace tessera {

std::int64_t blocks_of_search(Pipeline const& pipeline) {
  auto const blocks = blocks_of(pipeline);
  auto const of_cuts = pipeline.stages.size() > 2 ? blocks_of_offers(blocks) : 0;
  return blocks + blocks_with_mechanisms(blocks) + of_cuts;  // stream order first
}

std::int64_t lists_of_search(Pipeline const& pipeline, PlanOptions const& options) {
  auto const asked_for = [](Mechanism mechanism) { return uses_semaphores(mechanism); };
  auto const blocks = blocks_of(pipeline);
  if (blocks == 0 || (!options.mechanisms.empty() &&
                      std::none_of(options.mechanisms.begin(), options.mechanisms.end(), asked_for)))
    return 0;
  // A jacobi of 160 iterations takes 1.9 us a block with its list, where a block in stream order takes 0.2.
  constexpr std::int64_t k_blocks_of_list = 8;
  auto const candidates = candidates_with_tile_waits(blocks);
  // A step takes 11 ns. Of two stages few candidates have other lists; a longer chain is priced part by part
  // too, whose lists are made anew.
  constexpr std::int64_t k_steps_of_block = 18;
  auto const enumerations =
      pipeline.stages.size() > 2
          ? std::min<std::int64_t>(2 * candidates - std::min<std::int64_t>(candidates, 6), 70)
          : std::min<std::int64_t>(candidates, 12);
  return std::max(candidates * k_blocks_of_list * awaited_lists(pipeline),
                  enumerations * awaited_steps(pipeline) / k_steps_of_block);
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
