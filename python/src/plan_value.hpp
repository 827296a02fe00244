// SPDX-License-Identifier: Apache-2.0
// Plans and timelines as Python holds them.
#pragma once

#include "bindings.hpp"
#include "tessera/timeline.hpp"

namespace tessera::python {

/// A proved plan with the machine that it was proved for.
struct PlanValue {
  Plan plan;
  MachineProfile machine;
};

/// A file's text as a plan or a timeline; the plan is held against its machine and proved again.
nb::object plan_or_timeline_of(std::string const& text, std::string const& file);

/// simulate() without the lock of the interpreter.
Timeline simulated(Plan const& plan, MachineProfile const& machine);

}  // namespace tessera::python
