// SPDX-License-Identifier: Apache-2.0
// Split-K: work-groups that compute a part of a tile's depth, and the second pass that adds their partial
// sums up where no memory does (T3, section 7.7).
#include <algorithm>

#include "overlap/gemm_node.hpp"

namespace tessera::overlap {

/// A tile's splits are neighbours in the order of work, so that it is complete as early as can be.
void GemmNode::take_split(WorkGroup& group, std::int64_t position) {
  auto const splits = setup_.kernel.splits;
  group.tile = output_.order[static_cast<std::size_t>(position / splits)];
  group.split = static_cast<std::int32_t>(position % splits);
  group.slice = a_.slices() * group.split / splits;
  group.slice_end = a_.slices() * (group.split + 1) / splits;
}

/// The place has no more work-groups to come. When all rest, partial sums are all in L2 or memory.
void GemmNode::rest(int g, Picoseconds now) {
  groups_[static_cast<std::size_t>(g)].phase = Phase::idle;
  gemm_end_ = std::max(gemm_end_, now);
  if (groups_done_ == work_groups()) memory_.drain();
  if (++resting_ < groups_.size() || !setup_.cached_output || setup_.kernel.splits == 1) return;
  sums_start_ = now;
  for (std::size_t place = 0; place < groups_.size(); ++place) next_sum(static_cast<int>(place), now);
}

/// Loads all splits of a wavefront tile.
void GemmNode::next_sum(int g, Picoseconds now) {
  auto& group = groups_[static_cast<std::size_t>(g)];
  gemm_end_ = std::max(gemm_end_, now);
  if (next_sum_ == regions()) {
    group.phase = Phase::idle;
    return;
  }
  group.tile = next_sum_++;
  group.phase = Phase::summing;
  group.slots[0].ready =
      ports_.load(group.sm, region_bytes_ * setup_.kernel.splits, now) + memory_.hit_latency();
  auto const bundle = memory_.open(BundleKind::load, Traffic::gemm_read, g * setup_.kernel.stages);
  for (int split = 0; split < setup_.kernel.splits; ++split)
    memory_.load(bundle, now,
                 memory_.lines_of(base_of_split(split), split * regions() + group.tile, region_bytes_));
}

/// In a channel. Equal places of all copies are in use at once: each begins two rows of memory later, because
/// GPUs hash addresses against such strides.
std::uint64_t GemmNode::base_of_split(int split) const {
  return output_base_ +
         static_cast<std::uint64_t>(split) * 2 * static_cast<std::uint64_t>(hardware_.row_bytes);
}

/// They have come, and their sum is stored behind the partial ones.
void GemmNode::sum(int g, Picoseconds now) {
  auto& group = groups_[static_cast<std::size_t>(g)];
  group.phase = Phase::summed;
  group.split = setup_.kernel.splits;
  store_cached(g, group.tile, now);
}

}  // namespace tessera::overlap
