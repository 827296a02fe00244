// SPDX-License-Identifier: Apache-2.0
#include "tessera/simulate/rank.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <optional>

#include "tessera/simulate/in_turns.hpp"

namespace tessera {
namespace {

/// How many plans in stream order set the clock.
constexpr int k_in_turns = 8;

/// A simulated block takes some 0.2 us of one core with all that a search does besides: two seconds.
constexpr std::int64_t k_most_blocks = 10'000'000;

Diagnostic too_long(std::string const& name, SourceLine const& where, std::int64_t blocks) {
  return {"E0504",
          Severity::error,
          where,
          fmt::format(
              "to plan {}, some {} million blocks would be simulated, all candidates together; at most {} "
              "million are",
              name, blocks / 1'000'000, k_most_blocks / 1'000'000),
          {},
          "plan a smaller problem of the same shape: with hundreds of waves, time grows in proportion"};
}

/// `blocks`: of the search.
template <class Rank>
Expected<std::vector<Plan>> at_one_clock(MachineProfile const& machine, PlanOptions const& options,
                                         std::int64_t blocks, PriceObserver const& observer,
                                         Rank&& rank_with) {
  auto const observed = [&](Expected<Timeline> timeline) {
    if (timeline && observer) observer(static_cast<double>(timeline->end) * 1e-6);
    return timeline;
  };
  std::optional<MachineProfile> guess;
  auto const at_guess = [&](Plan const& plan) {
    if (!guess) guess = at_shared_clock({plan}, machine);
    return observed(simulate(plan, *guess, {false}));
  };
  // Two searches, of which the first settles clocks, would be too long: that of the first plan is taken for
  // all. Grids of many waves draw much the same.
  constexpr int k_searches = 3;
  if (k_searches * blocks > k_most_blocks) return rank_with(at_guess, options);
  auto shared = machine;
  if (machine.power_limit_w > 0) {
    auto in_order = options;
    in_order.mechanisms = {Mechanism::stream_order};
    in_order.policies.clear();
    in_order.chained = false;
    in_order.keep = k_in_turns;
    // Which plans these are hardly depends on the clock: that of the first one will do.
    auto const plans = rank_with(at_guess, in_order);
    if (!plans) return plans;
    shared = at_shared_clock(*plans, machine);
  }
  return rank_with([&](Plan const& plan) { return observed(simulate(plan, shared, {false})); }, options);
}

Plan first_of(std::vector<Plan> plans) { return std::move(plans.front()); }

}  // namespace

Expected<std::vector<Plan>> rank_by_simulation(OperatorGraph const& graph, Registry const& kernels,
                                               MachineProfile const& machine, PlanOptions const& options,
                                               PriceObserver const& observer) {
  auto const blocks = blocks_of_search(graph, kernels, machine);
  if (!blocks) return tl::make_unexpected(blocks.error());
  if (*blocks > k_most_blocks) return refuse(too_long(graph.name, graph.where, *blocks));
  return at_one_clock(machine, options, *blocks, observer, [&](Pricer const& price, PlanOptions const& with) {
    return rank(graph, kernels, machine, price, with);
  });
}

Expected<std::vector<Plan>> rank_by_simulation(CheckedPipeline const& checked, MachineProfile const& machine,
                                               PlanOptions const& options, PriceObserver const& observer) {
  auto const blocks = blocks_of_search(checked);
  auto const& pipeline = checked.pipeline();
  if (blocks > k_most_blocks) return refuse(too_long(pipeline.name, pipeline.where, blocks));
  return at_one_clock(machine, options, blocks, observer, [&](Pricer const& price, PlanOptions const& with) {
    return rank(checked, machine, price, with);
  });
}

Expected<Plan> choose_by_simulation(OperatorGraph const& graph, Registry const& kernels,
                                    MachineProfile const& machine, PlanOptions const& options,
                                    PriceObserver const& observer) {
  return rank_by_simulation(graph, kernels, machine, options, observer).map(first_of);
}

Expected<Plan> choose_by_simulation(CheckedPipeline const& checked, MachineProfile const& machine,
                                    PlanOptions const& options, PriceObserver const& observer) {
  return rank_by_simulation(checked, machine, options, observer).map(first_of);
}

}  // namespace tessera
