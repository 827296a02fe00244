// SPDX-License-Identifier: Apache-2.0
// Which iteration of a loop a wait that met its deadline was in.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "../plan/loop_plan.hpp"
#include "../sync/wait.cuh"

namespace tessera {

/// Of a launch, from 0 up, if every launch since the memory was zeroed asked for so many iterations, 1 or
/// more: a wait for posts of its own period expects one more than there were periods before, a wait for those
/// of an earlier period as many less as it reaches back. A wait for data that carries its iteration says it
/// where it is known (data_token_of()). None if the record does not tell it: it is empty, or of a semaphore
/// that the stage waits for in several periods.
std::optional<long long> stalled_iteration(LoopPlan const& plan, StallRecord const& record,
                                           long long iterations);

/// What a wait for data that carries its iteration may have been for: of each buffer of LoopPlan::tokens that
/// the stage reads, the buffer and the stage that writes it ("x of down"). Empty for a wait for a semaphore.
std::vector<std::string> awaited_data(LoopPlan const& plan, StallRecord const& record);

}  // namespace tessera
