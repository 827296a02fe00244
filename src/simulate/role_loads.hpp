// SPDX-License-Identifier: Apache-2.0
// Loads of all SMs on their way through a memory and an L2 that they share: SMs get equal shares, and the
// loads of weights of one SM are served in order.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <deque>
#include <queue>
#include <vector>

#include "event_queue.hpp"
#include "shared_server.hpp"
#include "tessera/simulate/role_machine.hpp"

namespace tessera::simulation {

/// A load: which slot of which SM it fills.
struct RoleLoad {
  int sm = 0;
  bool late = false;
  std::int64_t slot = 0;
  double bytes = 0;
};

class RoleLoads {
 public:
  /// Registers three components with the queue. `in_flight_bytes`: most that an SM has on their way.
  RoleLoads(EventQueue& queue, RoleMachine const& machine, double in_flight_bytes, std::size_t sms)
      : queue_(queue),
        dram_(machine.dram_gbps * at_bytes(machine.dram_share, in_flight_bytes) / 1000,
              machine.sm_load_gbps / 1000),
        l2_(machine.l2_gbps / 1000, machine.sm_load_gbps / 1000),
        first_component_(queue.add(k_dram)),
        lanes_{std::vector<Lane>(sms), std::vector<Lane>(sms)},
        slowness_(slowness(machine, sms)) {
    queue.add(k_l2);
    queue.add(k_timed);
  }

  /// Weights: they reach the memory `latency` later. Goes through the memory and the L2 at once.
  void start_weights(Picoseconds now, Picoseconds latency, RoleLoad const& load) {
    dram_bytes_ += load.bytes;
    timed(now + latency, keep(load, 2, 0), true);
  }
  /// Through the L2 alone; lands at `earliest`, or later.
  void start_late(Picoseconds now, Picoseconds earliest, RoleLoad const& load) {
    int const id = keep(load, 1, earliest);
    l2_.join(now, load.bytes, id);
    wake(now);
  }

  bool owns(int component) const { return component >= first_component_ && component < first_component_ + 3; }
  /// Calls landed(load) for all that have landed by now. Precondition: owns(component).
  template <class Landed>
  void turn(int component, Picoseconds now, Landed&& landed) {
    done_.clear();
    served_.clear();
    auto const keep_id = [&](std::int32_t id) { served_.push_back(id); };
    if (component == first_component_) dram_.complete(now, keep_id);
    if (component == first_component_ + 1) l2_.complete(now, keep_id);
    auto const at = static_cast<std::size_t>(component - first_component_);
    for (auto const id : served_) served(now, at, id);
    if (component == first_component_ + 2)
      while (!timed_.empty() && timed_.top().at <= now) {
        auto const one = timed_.top();
        timed_.pop();
        if (!one.joins) {
          done_.push_back(one.id);
          continue;
        }
        for (std::size_t server : {0, 1}) {
          auto& lane = lane_of(server, one.id);
          lane.push_back(one.id);
          if (lane.size() == 1) join(now, server, one.id);
        }
      }
    wake(now);
    for (auto const id : done_) {
      auto const load = loads_[static_cast<std::size_t>(id)].load;
      free_.push_back(id);
      landed(load);
    }
  }

  double dram_bytes() const { return dram_bytes_; }  ///< of weights

 private:
  static constexpr int k_dram = 0, k_l2 = 0, k_timed = 1;

  struct Kept {
    RoleLoad load;
    int servers;  ///< that have not served it yet
    Picoseconds earliest;
  };
  struct Timed {
    Picoseconds at;
    std::int64_t order;
    std::int32_t id;
    bool joins;  ///< the servers; else it has landed
    bool operator<(Timed const& other) const { return at != other.at ? at > other.at : order > other.order; }
  };

  /// Spread evenly over SMs in an order that has nothing to do with their numbers; 1 in the mean.
  static std::vector<double> slowness(RoleMachine const& machine, std::size_t sms) {
    constexpr double golden = 0.6180339887498949;
    std::vector<double> result(sms, 1);
    double sum = 0;
    for (std::size_t s = 0; s < sms; ++s) {
      auto const place = std::fmod((static_cast<double>(s) + 0.5) * golden, 1);
      sum += result[s] = machine.fastest_sm + place * (machine.slowest_sm - machine.fastest_sm);
    }
    for (auto& one : result) one *= static_cast<double>(sms) / sum;
    return result;
  }

  using Lane = std::deque<std::int32_t>;  ///< loads of weights of an SM; the first one is served

  Lane& lane_of(std::size_t server, std::int32_t id) {
    return lanes_[server][static_cast<std::size_t>(loads_[static_cast<std::size_t>(id)].load.sm)];
  }
  void join(Picoseconds now, std::size_t server, std::int32_t id) {
    auto const& load = loads_[static_cast<std::size_t>(id)].load;
    if (server == 0)
      dram_.join(now, load.bytes * slowness_[static_cast<std::size_t>(load.sm)], id);
    else
      l2_.join(now, load.bytes, id);
  }
  void served(Picoseconds now, std::size_t server, std::int32_t id) {
    auto& one = loads_[static_cast<std::size_t>(id)];
    if (!one.load.late) {
      auto& lane = lane_of(server, id);
      lane.pop_front();
      if (!lane.empty()) join(now, server, lane.front());
    }
    if (--one.servers > 0) return;
    if (one.earliest > now)
      timed(one.earliest, id, false);
    else
      done_.push_back(id);
  }
  std::int32_t keep(RoleLoad const& load, int servers, Picoseconds earliest) {
    if (free_.empty()) {
      loads_.push_back({load, servers, earliest});
      return static_cast<std::int32_t>(loads_.size()) - 1;
    }
    auto const id = free_.back();
    free_.pop_back();
    loads_[static_cast<std::size_t>(id)] = {load, servers, earliest};
    return id;
  }
  void timed(Picoseconds at, std::int32_t id, bool joins) {
    timed_.push({at, order_++, id, joins});
    queue_.wake(first_component_ + 2, timed_.top().at);
  }
  void wake(Picoseconds now) {
    set(first_component_, dram_.next(now));
    set(first_component_ + 1, l2_.next(now));
    set(first_component_ + 2, timed_.empty() ? k_never : timed_.top().at);
  }
  void set(int component, Picoseconds at) {
    if (at == k_never)
      queue_.sleep(component);
    else
      queue_.wake(component, at);
  }

  EventQueue& queue_;
  SharedServer dram_, l2_;
  int first_component_;
  std::vector<Kept> loads_;
  std::array<std::vector<Lane>, 2> lanes_;  ///< by server and SM
  std::vector<double> slowness_;            ///< by SM
  std::vector<std::int32_t> free_, done_, served_;
  std::priority_queue<Timed> timed_;
  std::int64_t order_ = 0;
  double dram_bytes_ = 0;
};

}  // namespace tessera::simulation
