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
/// Takes the figures of measure_launch and measure_gap that differ from process to process in others as well,
/// and gives them the median and the spread over all. Works in tessera-probe only, as measure_pitfalls.
void measure_processes(Context const& context, Probe& probe);
void measure_residency(Context const& context, Probe& probe);
void measure_early_start(Context const& context, Probe& probe);
void measure_peer_access(Context const& context, Probe& probe);
void measure_peer_hop(Context const& context, Probe& probe);
void measure_peer_barrier(Context const& context, Probe& probe);
void measure_peer_host(Context const& context, Probe& probe);
void measure_peer_bandwidth(Context const& context, Probe& probe);
void measure_peer_nccl(Context const& context, Probe& probe);
void measure_peer_reduce(Context const& context, Probe& probe);
void measure_placement(Context const& context, Probe& probe);
/// Runs this program again for each case, so it works in tessera-probe only.
void measure_pitfalls(Context const& context, Probe& probe);

void measure_cluster(Context const& context, Probe& probe);
void measure_grid(Context const& context, Probe& probe);
/// The planner's wait, post and ticket.
void measure_pair_calls(Context const& context, Probe& probe);
void measure_pair_hop(Context const& context, Probe& probe);
void measure_exchange(Context const& context, Probe& probe);
/// Appends to Probe::tau.
void measure_tau(Context const& context, Probe& probe);

}  // namespace tessera::probe
