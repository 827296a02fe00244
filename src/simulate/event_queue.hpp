// SPDX-License-Identifier: Apache-2.0
// The clock of the simulator: components that sleep until a time. It knows nothing of what they are.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace tessera::simulation {

using Picoseconds = std::int64_t;
constexpr Picoseconds k_never = std::numeric_limits<Picoseconds>::max();

/// The nearest.
inline Picoseconds picoseconds(double nanoseconds) {
  return static_cast<Picoseconds>(std::llround(nanoseconds * 1000));
}

/// At most one wake-up per component; setting it again moves it. Order: (time, priority, sequence), where
/// the sequence is the order in which components were added, not that in which they were set: events of
/// the same time come out the same whatever code set them first.
///
/// A sorted array with room at its front. A few hundred components are awake at once and most wake-ups are
/// later than all or many of them, so that moving entries costs less than the comparisons of a heap, and
/// taking the first one costs nothing.
class EventQueue {
 public:
  /// Registers a component; lower priority goes first at equal times. Returns its number: 0, 1, 2, ...
  int add(int priority) {
    set_for_.push_back(k_never);
    rank_.push_back((static_cast<std::uint64_t>(static_cast<std::uint32_t>(priority)) << 32) |
                    static_cast<std::uint64_t>(rank_.size()));
    return static_cast<int>(rank_.size()) - 1;
  }

  /// Precondition: time < k_never.
  void wake(int component, Picoseconds time) {
    auto& set = set_for_[static_cast<std::size_t>(component)];
    if (set == time) return;
    Entry const entry{time, rank_[static_cast<std::size_t>(component)]};
    if (set != k_never) erase(place_of({set, entry.rank}, begin()));
    set = time;
    insert(entry);
  }

  void sleep(int component) {
    auto& set = set_for_[static_cast<std::size_t>(component)];
    if (set == k_never) return;
    erase(place_of({set, rank_[static_cast<std::size_t>(component)]}, begin()));
    set = k_never;
  }

  bool empty() const { return first_ == entries_.size(); }
  Picoseconds next_time() const { return empty() ? k_never : entries_[first_].time; }

  /// The component whose turn it is, now asleep. Precondition: not empty.
  int pop() {
    auto const component = static_cast<int>(entries_[first_++].rank & 0xffffffffU);
    set_for_[static_cast<std::size_t>(component)] = k_never;
    return component;
  }

 private:
  struct Entry {
    Picoseconds time;
    std::uint64_t rank;
    // Without branches: which of two is earlier is a coin toss that no predictor guesses.
    bool operator<(Entry const& other) const {
      return (time < other.time) | ((time == other.time) & (rank < other.rank));
    }
  };
  using Place = std::vector<Entry>::iterator;

  Place begin() { return entries_.begin() + static_cast<std::ptrdiff_t>(first_); }

  /// Of the first entry from `from` on that is not before this one.
  Place place_of(Entry const& entry, Place from) {
    auto left = entries_.end() - from;
    while (left > 0) {
      auto const half = left / 2;
      bool const after = from[half] < entry;
      from = after ? from + half + 1 : from;
      left = after ? left - half - 1 : half;
    }
    return from;
  }

  void insert(Entry const& entry) {
    if (empty() || first_ > k_most_room) {
      entries_.erase(entries_.begin(), begin());
      first_ = 0;
    }
    if (entries_.empty() || entries_.back() < entry) return entries_.push_back(entry);
    if (first_ > 0) {
      // Many are near the front: look there first, and make room while looking.
      auto hole = begin() - 1;
      --first_;
      for (int i = 0; i < k_near && hole[1] < entry; ++i, ++hole) hole[0] = hole[1];
      if (hole[1] < entry) {
        auto const at = place_of(entry, hole + 1);
        hole = std::move(hole + 1, at, hole);
      }
      *hole = entry;
    } else {
      entries_.insert(place_of(entry, begin()), entry);
    }
  }

  void erase(Place at) {
    if (at - begin() > entries_.end() - at) {
      entries_.erase(at);
    } else {
      std::move_backward(begin(), at, at + 1);
      ++first_;
    }
  }

  static constexpr std::size_t k_most_room = 4096;
  static constexpr int k_near = 12;

  std::vector<Entry> entries_;
  std::size_t first_ = 0;  ///< entries_[first_] is next; those before it are over
  std::vector<Picoseconds> set_for_;
  std::vector<std::uint64_t> rank_;
};

}  // namespace tessera::simulation
