// SPDX-License-Identifier: Apache-2.0
// All experiments, each in the file of its name. Running order and descriptions: experiments.cpp.
#pragma once

#include "measure/gpu/experiments.hpp"

namespace tessera::probe {

/// Fills Probe::identity but for the commit.
void measure_identity(Context const& context, Probe& probe);
void measure_timers(Context const& context, Probe& probe);
void measure_add(Context const& context, Probe& probe);
void measure_warp(Context const& context, Probe& probe);
void measure_block(Context const& context, Probe& probe);
void measure_memory(Context const& context, Probe& probe);
void measure_launch(Context const& context, Probe& probe);
void measure_gap(Context const& context, Probe& probe);
void measure_residency(Context const& context, Probe& probe);
void measure_early_start(Context const& context, Probe& probe);

}  // namespace tessera::probe
