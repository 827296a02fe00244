// SPDX-License-Identifier: Apache-2.0
// Which post let which waiting block go on.
#pragma once

#include <vector>

#include "tessera/plan/plan.hpp"
#include "tessera/timeline.hpp"

namespace tessera::report {

struct Arrow {
  TileRecord const* post = nullptr;  ///< the last producer block to post
  TileRecord const* wait = nullptr;  ///< the consumer block that waited
};

/// For the `most` blocks that waited longest, the producer that was last; by the waiting block's start.
/// Empty when plan and timeline do not describe the same stages.
std::vector<Arrow> longest_waits(Timeline const& timeline, Plan const& plan, std::size_t most);

}  // namespace tessera::report
