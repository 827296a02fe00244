// SPDX-License-Identifier: Apache-2.0
// Where a group of launches is, and the steps that a scheduler or a block can take from there.
#pragma once

#include <cstdint>
#include <vector>

#include "explore_model.hpp"

namespace tessera::exploration {

struct State {
  std::vector<std::int64_t> placed;         // by kernel: blocks
  std::vector<std::int64_t> left;           // by kernel: blocks
  std::vector<int> drawn;                   // by kernel: tickets
  std::vector<int> finished_kind;           // by kind
  std::vector<std::int64_t> counts;         // by semaphore
  std::vector<std::vector<int>> residents;  // by SM: units
  std::vector<SmRoom> room;                 // by SM
  int head = -1;                            // in order: the kernel that is being placed, or -1
};

struct Step {
  enum { start, draw, finish, leave } what;
  int unit;
  int sm;
};

class Rules {
 public:
  explicit Rules(Model const& model) : model_(model) {}

  State start() const;

  /// The kernel's next block may be placed, if it has room.
  bool is_eligible(State const& state, int kernel) const;
  /// The unit is a worker's that could draw a ticket.
  bool can_draw(State const& state, int unit) const;
  /// Of a resident unit; of a ticket once it is drawn.
  bool can_finish(State const& state, int unit) const;

  bool has_tickets(State const& state, int kernel) const;
  /// Precondition: has_tickets().
  int next_ticket(State const& state, int kernel) const;
  /// The kernel's first unit that no block has begun.
  int first_unstarted(State const& state, int kernel) const;

  // `place` is an index into the SM's residents.
  Step start(State& state, int kernel, std::size_t sm) const;
  Step draw(State& state, std::size_t sm, std::size_t place) const;
  Step finish(State& state, std::size_t sm, std::size_t place) const;

 private:
  bool is_complete(State const& state, int kernel) const;
  bool is_placed(State const& state, int kernel) const;
  bool is_idle(int unit) const;

  Model const& model_;
};

}  // namespace tessera::exploration
