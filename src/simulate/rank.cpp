// SPDX-License-Identifier: Apache-2.0
#include "tessera/simulate/rank.hpp"

#include <optional>

#include "tessera/simulate/in_turns.hpp"

namespace tessera {
namespace {

/// How many plans in stream order set the clock.
constexpr int k_in_turns = 8;

template <class Rank>
Expected<std::vector<Plan>> at_one_clock(MachineProfile const& machine, PlanOptions const& options,
                                         PriceObserver const& observer, Rank&& rank_with) {
  auto const observed = [&](Expected<Timeline> timeline) {
    if (timeline && observer) observer(static_cast<double>(timeline->end) * 1e-6);
    return timeline;
  };
  auto shared = machine;
  if (machine.power_limit_w > 0) {
    auto in_order = options;
    in_order.mechanisms = {Mechanism::stream_order};
    in_order.policies.clear();
    in_order.chained = false;
    in_order.keep = k_in_turns;
    // Which plans these are hardly depends on the clock: that of the first one will do.
    std::optional<MachineProfile> guess;
    auto const plans = rank_with(
        [&](Plan const& plan) {
          if (!guess) guess = at_shared_clock({plan}, machine);
          return observed(simulate(plan, *guess, {false}));
        },
        in_order);
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
  return at_one_clock(machine, options, observer, [&](Pricer const& price, PlanOptions const& with) {
    return rank(graph, kernels, machine, price, with);
  });
}

Expected<std::vector<Plan>> rank_by_simulation(CheckedPipeline const& checked, MachineProfile const& machine,
                                               PlanOptions const& options, PriceObserver const& observer) {
  return at_one_clock(machine, options, observer, [&](Pricer const& price, PlanOptions const& with) {
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
