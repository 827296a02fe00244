// SPDX-License-Identifier: Apache-2.0
// Tuning of blocks with attention, norms, turned heads or residuals: among the plans that simulation promises
// most of, each as `tessera run` would run it.
#pragma once

#include "kernels/bindings/families.hpp"
#include "tessera/tune/tune.hpp"

namespace tessera::plan_check {

/// Has it an operator that only such plans have?
bool is_layer(OperatorGraph const& graph);

/// Plans of a graph on sets of operands that are larger than the L2 cache together; `plan` says which buffers
/// there are. What makes a plan runnable fails for one that no kernel can be bound for. E0511.
Expected<Subject> layer_subject(OperatorGraph const& graph, Plan const& plan, GpuStream stream,
                                Bindings const& bindings = shipped_bindings());

/// Measures promised_plans(), of a step that generates with the fastest variants, on sets of operands that
/// are larger than the L2 cache together, and decides. A plan whose stages are not right takes no part.
/// `floor_us`: no launch is faster. E0535 if none is right, E0511.
Expected<Tuned> tune_layer(OperatorGraph const& graph, MachineProfile const& machine, double floor_us,
                           GpuStream stream, TuneOptions const& options);

}  // namespace tessera::plan_check
