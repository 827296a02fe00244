// SPDX-License-Identifier: Apache-2.0
// How the collectives of one kernel reach what it is told of its plan.
#pragma once

#include <cutlass/cutlass.h>

#include <cstddef>

#include "synchronization.cuh"

namespace tessera::cutlass_sm90 {

using StageView = PersistentStageView<DeadlineWatch<>, Scope::device, 2>;

CUTLASS_DEVICE StageView view_of(Synchronization const& plan, PersistentProgress const& progress = {}) {
  return StageView(plan.stage, plan.memory, plan.launched, plan.watch, progress);
}

// Of CUTLASS's types of parameters, which derive from each other.
#pragma nv_diag_suppress 1427

/// CUTLASS gives a collective its own part of the kernel's parameters. From the epilogue's part to what lies
/// in the mainloop's.
template <class Kernel>
CUTLASS_DEVICE Synchronization const& synchronization_of(typename Kernel::EpilogueParams const& part) {
  using Params = typename Kernel::Params;
  auto const* const params = reinterpret_cast<char const*>(&part) - offsetof(Params, epilogue);
  return reinterpret_cast<Params const*>(params)->mainloop.synchronization;
}

#pragma nv_diag_default 1427

}  // namespace tessera::cutlass_sm90
