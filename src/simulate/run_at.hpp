// SPDX-License-Identifier: Apache-2.0
// What simulate() and simulate_in_turns() are made of.
#pragma once

#include "tessera/simulate/simulate.hpp"

namespace tessera::simulation {

/// What no clock changes: a plan that does not fit its pipeline or the machine, options that do not fit it.
Expected<void> refuse_plan(Plan const& plan, MachineProfile const& machine,
                           SimulateOptions const& options = {});

/// One run at a given clock, whatever power it draws. Refuses a deadlock only.
Expected<Timeline> run_at(Plan const& plan, MachineProfile const& machine, double clock_ghz,
                          SimulateOptions const& options);

}  // namespace tessera::simulation
