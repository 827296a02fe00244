// SPDX-License-Identifier: Apache-2.0
// A bandwidth that everyone who uses it shares equally: a memory, a link, a matrix unit.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "event_queue.hpp"

namespace tessera::simulation {

/// Processor sharing in virtual time: every flow receives min(rate / flows, flow_cap) per picosecond, so a
/// flow's end is a fixed point of the virtual clock; in practice joining and leaving cost O(1). Work is in
/// any unit (bytes, operations); the rates are that unit per picosecond.
class SharedServer {
 public:
  explicit SharedServer(double rate, double flow_cap = 0)
      : rate_(rate), cap_(flow_cap > 0 ? flow_cap : rate) {}

  /// A flow joins with this much work, > 0. Its number comes back from complete().
  void join(Picoseconds now, double work, std::int32_t flow) {
    advance(now);
    total_ += work;
    insert({virtual_now_ + work, flow});
  }

  /// When the next flow ends if nobody else joins; k_never without flows.
  Picoseconds next(Picoseconds now) {
    if (flows() == 0) return k_never;
    advance(now);
    auto const wait = std::max(0.0, flows_[first_].end - virtual_now_) / share();
    if (!(wait < 9e18 - static_cast<double>(now))) return k_never;
    auto const whole = static_cast<Picoseconds>(wait);
    return now + whole + (static_cast<double>(whole) < wait ? 1 : 0);
  }

  /// Calls done(flow) for every flow that has ended by now, in the order (end, flow). `done` may not join.
  template <class Done>
  void complete(Picoseconds now, Done&& done) {
    if (flows() == 0) return;
    advance(now);
    // Ends are rounded up to whole picoseconds: what ends within one picosecond ends now.
    auto const limit = virtual_now_ + share();
    while (first_ < flows_.size() && flows_[first_].end <= limit) done(flows_[first_++].flow);
    if (first_ == flows_.size()) virtual_now_ = 0;
  }

  std::size_t flows() const { return flows_.size() - first_; }
  double total() const { return total_; }           ///< all work that ever joined
  Picoseconds limited() const { return limited_; }  ///< time in which the rate, not the cap, ruled

 private:
  struct Flow {
    double end;
    std::int32_t flow;
    bool operator>(Flow const& other) const { return end != other.end ? end > other.end : flow > other.flow; }
  };

  // Flows of one kind have equal work and so end in the order in which they joined: most go to the back.
  // Short ones, a tile's stores, go near the front, where the flows that have ended left room.
  void insert(Flow const& flow) {
    if (first_ == flows_.size() || first_ > 1024) {
      flows_.erase(flows_.begin(), flows_.begin() + static_cast<std::ptrdiff_t>(first_));
      first_ = 0;
    }
    if (flows_.empty() || !(flows_.back() > flow)) return flows_.push_back(flow);
    auto const is_before = [](Flow const& a, Flow const& b) { return b > a; };
    if (first_ > 0) {
      auto hole = flows_.begin() + static_cast<std::ptrdiff_t>(--first_);
      for (int i = 0; i < k_near && is_before(hole[1], flow); ++i, ++hole) hole[0] = hole[1];
      if (is_before(hole[1], flow))
        hole = std::move(hole + 1, std::upper_bound(hole + 1, flows_.end(), flow, is_before), hole);
      *hole = flow;
    } else {
      flows_.insert(std::upper_bound(flows_.begin(), flows_.end(), flow, is_before), flow);
    }
  }

  // Only where time passes: many join in one instant.
  double share() {
    if (counted_ == flows()) return share_;
    counted_ = flows();
    auto const count = static_cast<double>(counted_);
    is_limit_ = rate_ <= cap_ * count;
    return share_ = std::min(cap_, rate_ / count);
  }

  void advance(Picoseconds now) {
    auto const passed = now - updated_;
    updated_ = now;
    if (passed == 0 || flows() == 0) return;
    virtual_now_ += static_cast<double>(passed) * share();
    if (is_limit_) limited_ += passed;
  }

  static constexpr int k_near = 12;

  double rate_;
  double cap_;
  double virtual_now_ = 0;
  double total_ = 0;
  Picoseconds updated_ = 0;
  Picoseconds limited_ = 0;
  double share_ = 0;  ///< what each of `counted_` flows receives
  std::size_t counted_ = 0;
  bool is_limit_ = false;    ///< the rate rules, not the cap
  std::size_t first_ = 0;    ///< flows_[first_] ends next; those before it have ended
  std::vector<Flow> flows_;  ///< by (end, flow)
};

}  // namespace tessera::simulation
