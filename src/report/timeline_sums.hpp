// SPDX-License-Identifier: Apache-2.0
// What the summary of a run and the difference of two both say of a timeline.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "tessera/timeline.hpp"

namespace tessera::report {

struct StageTotals {
  std::int64_t start = 0;
  std::int64_t end = 0;
  std::int64_t waiting = 0;
};

inline StageTotals totals(Timeline const& timeline, std::size_t stage) {
  StageTotals result{timeline.stages[stage].first_start, timeline.stages[stage].last_end, 0};
  for (auto const& tile : timeline.tiles)
    if (static_cast<std::size_t>(tile.stage) == stage) result.waiting += tile.waiting;
  return result;
}

inline std::string name_of(Timeline const& timeline) {
  return fmt::format("{} on {}, {} ({})", timeline.pipeline, timeline.machine, timeline.mechanism,
                     timeline.measured ? "measured" : "simulated");
}

}  // namespace tessera::report
