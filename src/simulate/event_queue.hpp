// SPDX-License-Identifier: Apache-2.0
// The clock of the simulator: components that sleep until a time. It knows nothing of what they are.
#pragma once

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace tessera::simulation {

using Picoseconds = std::int64_t;
constexpr Picoseconds k_never = std::numeric_limits<Picoseconds>::max();

/// At most one wake-up per component; setting it again moves it. Order: (time, priority, sequence), where
/// the sequence is the order in which components were added, not that in which they were set: events of
/// the same time come out the same whatever code set them first.
class EventQueue {
 public:
  /// Registers a component; lower priority goes first at equal times. Returns its number: 0, 1, 2, ...
  int add(int priority) {
    position_.push_back(k_asleep);
    rank_.push_back((static_cast<std::uint64_t>(static_cast<std::uint32_t>(priority)) << 32) |
                    static_cast<std::uint64_t>(position_.size() - 1));
    return static_cast<int>(position_.size()) - 1;
  }

  void wake(int component, Picoseconds time) {
    Entry const entry{time, rank_[index(component)]};
    auto at = position_[index(component)];
    if (at == k_asleep) {
      at = static_cast<std::int32_t>(heap_.size());
      heap_.push_back(entry);
      rise(at, entry);
    } else if (entry < heap_[index(at)]) {
      rise(at, entry);
    } else {
      sink(at, entry);
    }
  }

  void sleep(int component) {
    auto const at = position_[index(component)];
    if (at != k_asleep) remove(at);
  }

  bool empty() const { return heap_.empty(); }
  Picoseconds next_time() const { return heap_.empty() ? k_never : heap_[0].time; }

  /// The component whose turn it is, now asleep. Precondition: not empty.
  int pop() {
    auto const component = heap_[0].component();
    remove(0);
    return component;
  }

 private:
  static constexpr std::int32_t k_asleep = -1;
  static constexpr std::int32_t k_arity = 4;

  struct Entry {
    Picoseconds time;
    std::uint64_t rank;
    int component() const { return static_cast<int>(rank & 0xffffffffU); }
    bool operator<(Entry const& other) const {
      return time != other.time ? time < other.time : rank < other.rank;
    }
  };

  template <class Integer>
  static std::size_t index(Integer i) {
    return static_cast<std::size_t>(i);
  }

  void place(std::int32_t at, Entry const& entry) {
    heap_[index(at)] = entry;
    position_[index(entry.component())] = at;
  }

  void rise(std::int32_t at, Entry const entry) {
    while (at > 0) {
      auto const parent = (at - 1) / k_arity;
      if (!(entry < heap_[index(parent)])) break;
      place(at, heap_[index(parent)]);
      at = parent;
    }
    place(at, entry);
  }

  void sink(std::int32_t at, Entry const entry) {
    auto const size = static_cast<std::int32_t>(heap_.size());
    for (;;) {
      auto const first = at * k_arity + 1;
      if (first >= size) break;
      auto least = first;
      auto const last = first + k_arity < size ? first + k_arity : size;
      for (auto child = first + 1; child < last; ++child)
        if (heap_[index(child)] < heap_[index(least)]) least = child;
      if (!(heap_[index(least)] < entry)) break;
      place(at, heap_[index(least)]);
      at = least;
    }
    place(at, entry);
  }

  void remove(std::int32_t at) {
    position_[index(heap_[index(at)].component())] = k_asleep;
    auto const last = heap_.back();
    heap_.pop_back();
    if (at == static_cast<std::int32_t>(heap_.size())) return;
    if (last < heap_[index(at)] || at == 0 || !(last < heap_[index((at - 1) / k_arity)]))
      sink(at, last);
    else
      rise(at, last);
  }

  std::vector<Entry> heap_;
  std::vector<std::int32_t> position_;
  std::vector<std::uint64_t> rank_;
};

}  // namespace tessera::simulation
