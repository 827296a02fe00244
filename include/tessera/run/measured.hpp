// SPDX-License-Identifier: Apache-2.0
// From the time stamps of a launch to the same Timeline that the simulator makes.
#pragma once

#include <span>
#include <vector>

#include "../plan/plan.hpp"
#include "../sync/record.cuh"
#include "../timeline.hpp"

namespace tessera {

/// Time 0 is the start of the first block: what came before, the GPU's blocks cannot see. `stamps` has one
/// entry per block, stage after stage, at split * tiles + tile. Stamps of one block that the GPU's timer gave
/// in the wrong order (it ticks in steps) are moved to the one before. The slot of a block is the lowest that
/// is free on its SM when it starts. Refuses (E0522) stamps of an incomplete launch, naming the first block
/// that did not finish.
Expected<Timeline> measured_timeline(Plan const& plan, std::span<BlockStamps const> stamps, int sms);

/// When a launch ran, in microseconds since the first began.
struct LaunchSpan {
  double begin_us = 0;
  double end_us = 0;
};

/// Of kernels that write no stamps: one span for each launch of the plan, which all of its stages have. No
/// tiles (Timeline::by_launch).
Timeline launch_timeline(Plan const& plan, std::span<LaunchSpan const> spans, int sms);

}  // namespace tessera
