// SPDX-License-Identifier: Apache-2.0
// Tiles that read nothing of a producer of which other tiles of their stage read something.
#pragma once

#include <cstddef>
#include <vector>

#include "tessera/check/check.hpp"

namespace tessera::check_detail {

/// Consumer tiles that read nothing through a dependence.
struct IdleReads {
  std::size_t dependence = 0;
  std::int64_t tiles = 0;
  std::int64_t first = 0;
};

/// E0107 as a warning: such tiles do not wait, and where they do read the buffer, nobody has written what
/// they read. Said of a stage and its producer only if none of the dependences between them is read by all
/// tiles: a query may have its keys in a cache. `facts` has an entry for each dependence.
void report_idle_reads(Pipeline const& pipeline, std::vector<IdleReads> const& idle,
                       std::vector<DependenceFacts> const& facts, Diagnostics& warnings);

}  // namespace tessera::check_detail
