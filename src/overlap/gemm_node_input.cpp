// SPDX-License-Identifier: Apache-2.0
// Work-groups that start when the rows of A have come which they read.
#include "overlap/gemm_node.hpp"

namespace tessera::overlap {

void GemmNode::gather(OutputConfiguration const& panels,
                      std::vector<std::vector<std::int64_t>> const* mirrored_panel) {
  gathered_.emplace(setup_.machine, panels,
                    static_cast<double>(setup_.problem.m * setup_.problem.k * k_element), memory_, system_,
                    node_, mirrored_panel);
}

void GemmNode::record(Recorder& recorder) {
  recorder_ = &recorder;
  if (gathered_) gathered_->record(recorder);
}

/// Tiles are taken in order, and the order is that in which their panels come: who cannot have the next one
/// waits for it. Precondition: there is a next one.
bool GemmNode::awaits_input(int group) {
  if (!gathered_) return false;
  auto const next = static_cast<std::size_t>(next_position_ / setup_.kernel.splits);
  if (gathered_->is_here(tile_y(output_.order[next]))) return false;
  groups_[static_cast<std::size_t>(group)].phase = Phase::idle;
  waiting_groups_.push_back(group);
  return true;
}

/// All of a bundle's writes are in the memory's queues.
void GemmNode::queued(Bundle const& bundle, Picoseconds now) {
  if (bundle.kind == BundleKind::gathered) {
    if (gathered_->arrived(bundle.owner, now)) panel_arrived(now);
  } else if (bundle.region >= 0) {
    counted(bundle.region, bundle.atoms, now);
  }
}

/// The scheduling event that the Tracker triggers in place of a copy.
void GemmNode::panel_arrived(Picoseconds now) {
  for (auto waiting = waiting_groups_.size(); waiting > 0; --waiting) {
    auto const group = waiting_groups_.front();
    waiting_groups_.pop_front();
    next_tile(group, now);
  }
}

}  // namespace tessera::overlap
