// SPDX-License-Identifier: Apache-2.0
// The clock at which a GPU runs a plan again and again without drawing more than its power limit.
#pragma once

#include <functional>

#include "tessera/measure/machine_profile.hpp"
#include "tessera/plan/plan.hpp"
#include "tessera/timeline.hpp"

namespace tessera::simulation {

/// A clock and the power drawn at it depend on each other: simulated again until the clock changes by no
/// more, or so often.
constexpr double k_clock_tolerance = 0.004;
constexpr int k_most_clocks = 4;

/// What a run of a plan does, whatever the clock.
struct Work {
  double flops = 0;
  double l2_bytes = 0;
  double dram_bytes = 0;
};

/// Operations and reads of all blocks; of DRAM's, what is distinct in each stage.
Work work_of(Pipeline const& pipeline);

/// Watts drawn while `work` is done again and again in `nanoseconds` each at a clock.
double watts(MachineProfile const& machine, Work const& work, double nanoseconds, double clock_ghz);

/// A run as power sees it: it takes steady_ns + cycles / clock.
struct Load {
  Work work;
  double steady_ns = 0;
  double cycles = 0;

  double nanoseconds(double clock_ghz) const { return steady_ns + cycles / clock_ghz; }
};

/// That of a run of the plan that went at `clock_ghz`.
Load load_of(Plan const& plan, Timeline const& timeline, double clock_ghz);

/// The highest clock, at most machine.clock_ghz, at which `drawn(clock)`, which grows with it, keeps the
/// limit.
double clock_within_limit(MachineProfile const& machine, std::function<double(double)> const& drawn);

/// The same for one piece of work, if a run takes
/// steady_ns + cycles / clock.
double settled_clock(MachineProfile const& machine, Work const& work, double steady_ns, double cycles);

/// A guess of the clock before anything is simulated, from whole waves.
double first_clock(Plan const& plan, MachineProfile const& machine);

}  // namespace tessera::simulation
