// SPDX-License-Identifier: Apache-2.0
// Buffers of SMs in which stores of a tile wait for one another, so that they leave together. An example of
// hardware that is added to a GPU of the study (docs/t3.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace tessera::overlap {

class WriteCombining {
 public:
  /// `capacity`: bytes of each SM's buffer; 0: there is none.
  WriteCombining(std::size_t sms, double capacity, double store_bytes)
      : capacity_(capacity), store_bytes_(store_bytes), held_(sms) {}

  /// A work-group of an SM stores a region, and has stored its tile with the `last`. Calls `send(group,
  /// region)` for each that leaves now, in the order in which they were stored: all of a tile that is
  /// complete, and the oldest ones while the buffer is too full.
  template <class Send>
  void store(std::int32_t sm, int group, std::int64_t region, bool last, Send const& send) {
    if (capacity_ <= 0) return send(group, region);
    auto& held = held_[static_cast<std::size_t>(sm)];
    held.push_back({group, region});
    if (last) {
      std::deque<Store> rest;
      for (auto const& one : held)
        if (one.group == group)
          send(one.group, one.region);
        else
          rest.push_back(one);
      held.swap(rest);
    }
    while (static_cast<double>(held.size()) * store_bytes_ > capacity_) {
      auto const oldest = held.front();
      held.pop_front();
      send(oldest.group, oldest.region);
    }
  }

 private:
  struct Store {
    int group;
    std::int64_t region;
  };
  double capacity_, store_bytes_;
  std::vector<std::deque<Store>> held_;  ///< by SM
};

}  // namespace tessera::overlap
