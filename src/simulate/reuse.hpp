// SPDX-License-Identifier: Apache-2.0
// How often does a stage read its operands from DRAM, when what it reads does not fit in L2?
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/measure/machine_profile.hpp"
#include "tessera/plan/plan.hpp"

namespace tessera::simulation {

/// Bytes that all blocks of a stage read from DRAM through each operand, first reads included: between
/// unique_bytes (an L2 that holds everything) and bytes_per_block times blocks (none).
///
/// Blocks that are resident together walk through K together, so a panel (the part of an operand that a block
/// reads) is shared within a wave as long as L2 holds the slices in flight; it is shared with a later wave in
/// so far as L2 holds what one wave reads and writes. With unique bytes U, bytes T that are distinct within
/// their wave, summed over waves, and all loaded bytes L:
///
///     U + (T - U) (1 - h_wave) + (L - T) (1 - h_slices),   h = min(1, capacity / bytes in between)
///
/// `wave` is the number of blocks resident at once. h is linear as for a cache that evicts at random; strict
/// LRU would fall to 0 as soon as the bytes in between exceed the capacity.
std::vector<double> dram_reads(Stage const& stage, StagePlan const& planned, double l2_bytes,
                               std::int64_t wave);

}  // namespace tessera::simulation
