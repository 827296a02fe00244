// SPDX-License-Identifier: Apache-2.0
// T3's Tracker (section 4.2.1): counts the updates of each wavefront's part of the output, and says when all
// have come.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tessera::overlap {

/// Sets are indexed by the low bits of the work-group's number, ways tagged by its high bits and the
/// wavefront. An entry lives from when the first of a region's updates (the
/// GEMM's own, or a peer's) have all gone into the queues until the last have. Regions that nothing is sent
/// from have none. What does not fit is counted, as a
/// program on the real thing would fail; the simulation goes on, so that the size which would have sufficed
/// is known.
class Tracker {
 public:
  Tracker(int sets, int ways, std::int64_t regions, int wavefronts)
      : ways_(ways),
        wavefronts_(wavefronts),
        used_(static_cast<std::size_t>(sets), 0),
        counts_(static_cast<std::size_t>(regions), 0) {}

  /// True if this update was the last of `threshold`.
  bool update(std::int64_t region, std::int32_t updates, std::int32_t threshold) {
    auto& count = counts_[static_cast<std::size_t>(region)];
    auto& used = used_[static_cast<std::size_t>(region / wavefronts_) % used_.size()];
    if (count == 0) {
      if (++used > ways_) ++overflows_;
      most_in_set_ = std::max(most_in_set_, used);
      peak_ = std::max(peak_, ++live_);
    }
    count += updates;
    if (count < threshold) return false;
    count = 0;  // the entry is free; a later phase takes a new one
    --used;
    --live_;
    return true;
  }

  int peak() const { return peak_; }
  int most_in_set() const { return most_in_set_; }
  std::int64_t overflows() const { return overflows_; }

 private:
  int ways_, wavefronts_;
  int live_ = 0, peak_ = 0, most_in_set_ = 0;
  std::int64_t overflows_ = 0;
  std::vector<int> used_;
  std::vector<std::int32_t> counts_;
};

}  // namespace tessera::overlap
