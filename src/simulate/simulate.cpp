// SPDX-License-Identifier: Apache-2.0
#include "tessera/simulate/simulate.hpp"

#include <cmath>
#include <utility>

#include "deadlock.hpp"
#include "gpu.hpp"
#include "power.hpp"
#include "run_at.hpp"

namespace tessera {
namespace {

/// The clock that the power limit allows for a run like this one, which went at `clock`.
double clock_of_run(Plan const& plan, MachineProfile const& machine, Timeline const& timeline, double clock) {
  if (machine.power_limit_w <= 0) return clock;
  auto const load = simulation::load_of(plan, timeline, clock);
  return simulation::settled_clock(machine, load.work, load.steady_ns, load.cycles);
}

}  // namespace

namespace simulation {

Expected<Timeline> run_at(Plan const& plan, MachineProfile const& machine, double clock_ghz,
                          SimulateOptions const& options) {
  Gpu gpu(plan, machine, clock_ghz, options);
  if (gpu.run()) return gpu.timeline();
  if (options.record_tiles) return refuse(explain_deadlock(gpu));
  // The explanation needs to know which tiles were finished.
  auto recorded = options;
  recorded.record_tiles = true;
  Gpu again(plan, machine, clock_ghz, recorded);
  again.run();
  return refuse(explain_deadlock(again));
}

}  // namespace simulation

Expected<Turn> simulate_alone(Plan const& plan, MachineProfile const& machine, SimulateOptions options) {
  if (auto fine = simulation::refuse_plan(plan, machine, options); !fine)
    return tl::make_unexpected(fine.error());
  auto clock = machine.power_limit_w > 0 ? simulation::first_clock(plan, machine) : machine.clock_ghz;
  for (int attempt = 0;; ++attempt) {
    auto timeline = simulation::run_at(plan, machine, clock, options);
    if (!timeline) return tl::make_unexpected(timeline.error());
    auto const settled = clock_of_run(plan, machine, *timeline, clock);
    if (std::abs(settled - clock) <= simulation::k_clock_tolerance * clock ||
        attempt == simulation::k_most_clocks)
      return Turn{clock, std::move(*timeline)};
    clock = settled;
  }
}

Expected<Timeline> simulate(Plan const& plan, MachineProfile const& machine, SimulateOptions options) {
  return simulate_alone(plan, machine, std::move(options)).map([](Turn turn) {
    return std::move(turn.timeline);
  });
}

}  // namespace tessera
