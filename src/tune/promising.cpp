// SPDX-License-Identifier: Apache-2.0
// The candidates for a chain whose tiles are given: every mechanism, policy and optimization, the most
// promising by simulation.
#include <algorithm>
#include <limits>

#include "tessera/simulate/rank.hpp"
#include "tessera/tune/plans.hpp"
#include "tessera/tune/search.hpp"

namespace tessera {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();
/// Of each mechanism, so that a simulation that is wrong about one leaves the others in.
constexpr int k_of_a_mechanism = 6;

/// The most promising plans of each mechanism and of all together, none twice.
std::vector<Plan> promising(CheckedPipeline const& checked, MachineProfile const& machine) {
  std::vector<Plan> result;
  std::vector<std::string> known;
  auto const add = [&](PlanOptions options) {
    options.keep = k_of_a_mechanism;
    auto plans = rank_by_simulation(checked, machine, options);
    if (!plans) return;
    for (auto& plan : *plans) {
      auto name = plan_name(plan);
      if (std::find(known.begin(), known.end(), name) != known.end()) continue;
      known.push_back(std::move(name));
      result.push_back(std::move(plan));
    }
  };
  add({});
  for (auto const mechanism : {Mechanism::stream_order, Mechanism::pdl, Mechanism::wait_kernel,
                               Mechanism::pdl_tiles, Mechanism::fused}) {
    PlanOptions only;
    only.mechanisms = {mechanism};
    add(only);
  }
  return result;
}

}  // namespace

Expected<Found> search(CheckedPipeline const& checked, MachineProfile const& machine,
                       Stopwatch const& measure) {
  Found found;
  Stopwatch const counted = [&](Plan const& plan) {
    ++found.tried;
    return measure(plan);
  };
  auto priced = checked;
  Diagnostics refusal;  // why nothing could be measured
  if (auto prices = price_stages(checked, machine, counted)) {
    auto again = check(with_prices(checked.pipeline(), *prices));
    if (!again) return tl::make_unexpected(again.error());
    priced = std::move(*again);
    found.prices = std::move(*prices);
  } else {
    refusal = prices.error();
  }
  for (auto& plan : promising(priced, machine)) {
    auto const us = counted(plan);
    auto const name = plan_name(plan);
    found.candidates.push_back({name, mechanism_text(plan), is_stream_order(plan), std::move(plan)});
    found.times.push_back(us ? *us : never);
  }
  bool const measured =
      std::any_of(found.times.begin(), found.times.end(), [](double us) { return us < never; });
  if (!measured && !refusal.empty()) return tl::make_unexpected(std::move(refusal));
  return found;
}

}  // namespace tessera
