// SPDX-License-Identifier: Apache-2.0
// A bandwidth that everyone who uses it shares equally: a memory, a link, a matrix unit.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "event_queue.hpp"

namespace tessera::simulation {

/// Processor sharing in virtual time: every flow receives min(rate / flows, flow_cap) per picosecond, so a
/// flow's end is a fixed point of the virtual clock and joining or leaving costs O(log flows). Work is in
/// any unit (bytes, operations); the rates are that unit per picosecond.
class SharedServer {
 public:
  explicit SharedServer(double rate, double flow_cap = 0)
      : rate_(rate), cap_(flow_cap > 0 ? flow_cap : rate) {}

  /// A flow joins with this much work, > 0. Its number comes back from complete().
  void join(Picoseconds now, double work, std::int32_t flow) {
    advance(now);
    total_ += work;
    flows_.push_back({virtual_now_ + work, flow});
    std::push_heap(flows_.begin(), flows_.end(), std::greater<>());
  }

  /// When the next flow ends if nobody else joins; k_never without flows.
  Picoseconds next(Picoseconds now) {
    if (flows_.empty()) return k_never;
    advance(now);
    auto const left = std::max(0.0, flows_.front().end - virtual_now_);
    auto const wait = std::ceil(left / share());
    return wait < 9e18 - static_cast<double>(now) ? now + static_cast<Picoseconds>(wait) : k_never;
  }

  /// Calls done(flow) for every flow that has ended by now, in the order (end, flow). `done` may not join.
  template <class Done>
  void complete(Picoseconds now, Done&& done) {
    if (flows_.empty()) return;
    advance(now);
    // Ends are rounded up to whole picoseconds: what ends within one picosecond ends now.
    auto const limit = virtual_now_ + share();
    while (!flows_.empty() && flows_.front().end <= limit) {
      auto const flow = flows_.front().flow;
      std::pop_heap(flows_.begin(), flows_.end(), std::greater<>());
      flows_.pop_back();
      done(flow);
    }
    if (flows_.empty()) virtual_now_ = 0;
  }

  std::size_t flows() const { return flows_.size(); }
  double total() const { return total_; }           ///< all work that ever joined
  Picoseconds limited() const { return limited_; }  ///< time in which the rate, not the cap, ruled

 private:
  struct Flow {
    double end;
    std::int32_t flow;
    bool operator>(Flow const& other) const { return end != other.end ? end > other.end : flow > other.flow; }
  };

  double share() const { return std::min(cap_, rate_ / static_cast<double>(flows_.size())); }

  void advance(Picoseconds now) {
    auto const passed = now - updated_;
    updated_ = now;
    if (flows_.empty() || passed == 0) return;
    virtual_now_ += static_cast<double>(passed) * share();
    if (rate_ <= cap_ * static_cast<double>(flows_.size())) limited_ += passed;
  }

  double rate_;
  double cap_;
  double virtual_now_ = 0;
  double total_ = 0;
  Picoseconds updated_ = 0;
  Picoseconds limited_ = 0;
  std::vector<Flow> flows_;
};

}  // namespace tessera::simulation
