// SPDX-License-Identifier: Apache-2.0
// How long the host waits for a chain that may be stuck, or may not have begun: unrelated work may be queued
// before it for any time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "tessera/plan/plan.hpp"

namespace tessera::run {

/// What a chain's words in device memory say: semaphores, and by stage how many blocks have drawn a ticket or
/// announced that they start (0: the stage's blocks do neither).
struct ChainWords {
  std::span<unsigned const> semaphores;
  std::span<unsigned long long const> started;
};

/// Has a launch begun that is not complete? Between launches, every semaphore has the posts of a whole number
/// of launches, and every stage the blocks of as many. False may also mean that nothing has been counted yet.
bool under_way(Plan const& plan, ChainWords const& words);

/// How many launches were complete, modulo 2^32, when none is under way; none where the plan counts nothing.
std::optional<unsigned> whole_launches(Plan const& plan, ChainWords const& words);

/// Gives up when a launch that is under way has not got on for so long.
class Patience {
 public:
  explicit Patience(double seconds) : seconds_(seconds) {}

  /// `now` in seconds; `state`: a number that is another when the words are.
  bool gives_up(double now, bool is_under_way, std::uint64_t state) {
    if (!is_under_way || !seen_ || state != state_) since_ = now;
    seen_ = true;
    state_ = state;
    return now - since_ > seconds_;
  }

 private:
  double seconds_;
  double since_ = 0;
  std::uint64_t state_ = 0;
  bool seen_ = false;
};

}  // namespace tessera::run
