// SPDX-License-Identifier: Apache-2.0
// How the buffers of a loop go from stage to stage in one persistent launch, chosen by price.
#pragma once

#include "tessera/check/check.hpp"
#include "tessera/plan/loop_plan.hpp"

namespace tessera {

/// A choice for each buffer that a stage of the body writes and one reads. `iterations`: as many as
/// window_of() says. A tile is a block, but not more than `most_blocks` of them. Precondition: bytes of
/// `offers.ahead` are not negative.
std::vector<BufferExchange> choose_exchanges(CheckedPipeline const& iterations, Loop const& loop,
                                             MachineProfile const& machine, LoopOffers const& offers,
                                             int most_blocks);

}  // namespace tessera
