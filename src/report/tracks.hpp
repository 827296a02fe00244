// SPDX-License-Identifier: Apache-2.0
// A timeline's rows beside the SMs, and what its blocks waited for.
#pragma once

#include <string>
#include <vector>

#include "tessera/timeline.hpp"

namespace tessera::report {

std::string track_name(Timeline const& timeline, Track const& track);  ///< "copy engine", "GPU 1 copy engine"
std::string span_name(Timeline const& timeline, TrackSpan const& span);  ///< "chunk 3"

struct TrackTotals {
  std::int64_t first = 0, last = 0, busy = 0, bytes = 0;  ///< ps; all zero for a track without spans
};
std::vector<TrackTotals> totals_of_tracks(Timeline const& timeline);

/// Do the blocks tell what they waited for?
bool tells_causes(Timeline const& timeline);

/// Where the time went that the machine's block slots had for a stage: the mean of all slots. The parts, the
/// same for every stage, add up to the run's time. Precondition: tells_causes(timeline).
struct TimePart {
  std::string name;
  double us = 0;
};
std::vector<TimePart> time_parts(Timeline const& timeline, std::size_t stage);

/// Between neighbouring blocks of the stage on one slot: from the end of one's main loop to the beginning of
/// the next one's, in ps. Entry n is the mean over all slots that ran blocks n and n + 1.
std::vector<double> boundaries(Timeline const& timeline, std::size_t stage);

}  // namespace tessera::report
