// SPDX-License-Identifier: Apache-2.0
// Deadlocks of large plans, found by playing the worst scheduler: later kernels first, on the fewest
// blocks per SM that keep the earliest unplaced kernel out.
#include <algorithm>

#include "progress_kernels.hpp"

namespace tessera::progress {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

constexpr int k_max_attempts = 24;

class Attempt {
 public:
  explicit Attempt(Setting const& setting)
      : setting_(setting),
        flow_(setting.waits),
        left_(at(setting.sms), setting.sm),
        placed_(setting.kernel_of.size(), 0),
        sm_of_(setting.kernel_of.size()) {
    for (std::size_t s = 0; s < sm_of_.size(); ++s)
      sm_of_[s].assign(at(setting.plan.pipeline.stages[s].blocks()), -1);
  }

  std::optional<Stuck> play(std::vector<int> const& stages) {
    for (auto const stage : stages)
      while (placed_[at(stage)] < kernel(stage).blocks)
        if (auto const stuck = place(stage)) return stuck;
    return std::nullopt;
  }

 private:
  Kernel const& kernel(int stage) const { return setting_.kernels[at(setting_.kernel_of[at(stage)])]; }

  std::optional<Stuck> place(int stage) {
    auto const waiter = setting_.wait_kernel_of[at(stage)];
    if (placed_[at(stage)] == 0 && waiter >= 0) {
      if (placed_[at(stage - 1)] == 0)
        if (auto const stuck = place(stage - 1)) return stuck;
      if (find_sm(setting_.kernels[at(waiter)].use, -1) < 0) return stuck_at(waiter, 0);
    }
    auto const sm = find_sm(kernel(stage).use, target(stage));
    if (sm < 0) return stuck_at(setting_.kernel_of[at(stage)], placed_[at(stage)]);
    Block const block{stage, placed_[at(stage)]++};
    left_[at(sm)] -= kernel(stage).use;
    sm_of_[at(stage)][at(block.index)] = sm;
    finished_.clear();
    flow_.start(block, finished_);
    for (auto const& one : finished_)
      left_[at(sm_of_[at(one.stage)][at(one.index)])] += kernel(one.stage).use;
    return std::nullopt;
  }

  /// The earliest other stage with unplaced blocks, or -1.
  int target(int stage) const {
    for (int s = 0; s < stage; ++s)
      if (placed_[at(s)] < kernel(s).blocks) return s;
    return -1;
  }

  /// An SM with room; one that the target could still use if there is one.
  int find_sm(SmRoom const& use, int target_stage) const {
    int found = -1;
    for (int sm = 0; sm < setting_.sms; ++sm) {
      if (!left_[at(sm)].holds(use)) continue;
      if (target_stage < 0 || left_[at(sm)].holds(kernel(target_stage).use)) return sm;
      found = sm;
    }
    return found;
  }

  Stuck stuck_at(int blocked, std::int64_t next) const {
    Stuck stuck{blocked, next, {}};
    for (int s = 0; s < static_cast<int>(placed_.size()); ++s)
      for (std::int64_t b = 0; b < placed_[at(s)]; ++b)
        if (!flow_.is_finished({s, b}))
          stuck.held.push_back({sm_of_[at(s)][at(b)], setting_.kernel_of[at(s)], b});
    return stuck;
  }

  Setting const& setting_;
  Flow flow_;
  std::vector<SmRoom> left_;
  std::vector<std::int64_t> placed_;
  std::vector<std::vector<std::int32_t>> sm_of_;
  std::vector<Block> finished_;
};

/// Service orders, later stages first, that a scheduler may choose.
class Orders {
 public:
  explicit Orders(Setting const& setting) : setting_(setting), served_(setting.kernel_of.size(), 0) {}

  /// Calls `visit` for one after the other; stops when it is true.
  template <class Visit>
  bool each(Visit const& visit) {
    if (order_.size() == served_.size()) return visit(order_);
    for (int s = static_cast<int>(served_.size()) - 1; s >= 0; --s) {
      if (served_[at(s)]) continue;
      if (setting_.in_order && setting_.wait_kernel_of[at(s)] >= 0 && !served_[at(s - 1)]) continue;
      order_.push_back(s);
      served_[at(s)] = 1;
      if (each(visit)) return true;
      served_[at(s)] = 0;
      order_.pop_back();
    }
    return false;
  }

 private:
  Setting const& setting_;
  std::vector<int> order_;
  std::vector<char> served_;  // by stage: is it in the order?
};

}  // namespace

std::optional<Stuck> attack(Setting const& setting) {
  std::optional<Stuck> stuck;
  int attempts = 0;
  Orders(setting).each([&](std::vector<int> const& stages) {
    stuck = Attempt(setting).play(stages);
    return stuck || ++attempts == k_max_attempts;
  });
  return stuck;
}

}  // namespace tessera::progress
