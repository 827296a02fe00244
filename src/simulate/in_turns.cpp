// SPDX-License-Identifier: Apache-2.0
#include "tessera/simulate/in_turns.hpp"

#include <algorithm>
#include <cmath>

#include "power.hpp"
#include "run_at.hpp"

namespace tessera {
namespace {

using simulation::Load;

/// The clock at which the loads' mean power is the limit, each at most at its own highest.
double common_clock(MachineProfile const& machine, std::vector<Load> const& loads,
                    std::vector<double> const& highest) {
  return simulation::clock_within_limit(machine, [&](double clock) {
    double sum = 0;
    for (std::size_t i = 0; i < loads.size(); ++i) {
      auto const own = std::min(clock, highest[i]);
      sum += simulation::watts(machine, loads[i].work, loads[i].nanoseconds(own), own);
    }
    return sum / static_cast<double>(loads.size());
  });
}

}  // namespace

Expected<std::vector<Turn>> simulate_in_turns(std::vector<Plan> const& plans, MachineProfile const& machine,
                                              SimulateOptions options) {
  std::vector<Turn> turns(plans.size());
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (auto fine = simulation::refuse_plan(plans[i], machine, options); !fine)
      return tl::make_unexpected(fine.error());
    turns[i].clock_ghz = simulation::first_clock(plans[i], machine);
  }
  auto burst = machine;
  burst.power_limit_w = machine.power_burst_w;
  std::vector<Load> loads(plans.size());
  std::vector<double> highest(plans.size(), machine.clock_ghz);
  for (int attempt = 0;; ++attempt) {
    for (std::size_t i = 0; i < plans.size(); ++i) {
      auto timeline = simulation::run_at(plans[i], machine, turns[i].clock_ghz, options);
      if (!timeline) return tl::make_unexpected(timeline.error());
      turns[i].timeline = std::move(*timeline);
      loads[i] = simulation::load_of(plans[i], turns[i].timeline, turns[i].clock_ghz);
      highest[i] = simulation::settled_clock(burst, loads[i].work, loads[i].steady_ns, loads[i].cycles);
    }
    if (machine.power_limit_w <= 0 || attempt == simulation::k_most_clocks) return turns;
    auto const common = common_clock(machine, loads, highest);
    std::vector<double> clocks;
    bool settled = true;
    for (std::size_t i = 0; i < plans.size(); ++i) {
      clocks.push_back(std::min(common, highest[i]));
      settled &= std::abs(clocks[i] - turns[i].clock_ghz) <= simulation::k_clock_tolerance * clocks[i];
    }
    if (settled) return turns;
    for (std::size_t i = 0; i < plans.size(); ++i) turns[i].clock_ghz = clocks[i];
  }
}

MachineProfile at_shared_clock(std::vector<Plan> const& plans, MachineProfile const& machine) {
  if (machine.power_limit_w <= 0) return machine;
  auto const turns = simulate_in_turns(plans, machine, {false});
  if (!turns || turns->empty()) return machine;
  auto result = machine;
  result.power_limit_w = 0;
  result.clock_ghz = 0;
  for (auto const& turn : *turns) result.clock_ghz = std::max(result.clock_ghz, turn.clock_ghz);
  return result;
}

}  // namespace tessera
