// SPDX-License-Identifier: Apache-2.0
// The engine that executes copy commands: reads the tiles from memory and sends them.
#pragma once

#include <deque>
#include <utility>

#include "overlap/trigger_table.hpp"
#include "simulate/event_queue.hpp"

namespace tessera::overlap {

/// Takes commands in the order in which they became ready. With a limit it reads no further ahead of the link
/// than so many bytes; without (as the paper's simulation) every ready command is read at once.
class CopyEngine {
 public:
  explicit CopyEngine(double read_ahead_bytes) : limit_(read_ahead_bytes) {}

  void add(CopyCommand const* command, simulation::Picoseconds at) { ready_.emplace_back(at, command); }

  /// The next command to read, or null: none is ready, or the buffer is full until resume_at().
  CopyCommand const* next(simulation::Picoseconds now, double region_bytes) {
    while (!sent_.empty() && sent_.front().first <= now) {
      ahead_ -= sent_.front().second;
      sent_.pop_front();
    }
    if (ready_.empty() || ready_.front().first > now) return nullptr;
    auto const* command = ready_.front().second;
    auto const bytes = region_bytes * static_cast<double>(command->regions.size());
    if (limit_ > 0 && ahead_ > 0 && ahead_ + bytes > limit_) return nullptr;
    ready_.pop_front();
    ahead_ += bytes;
    return command;
  }

  /// Bytes that were read leave the buffer at a time; times do not go back.
  void sent(simulation::Picoseconds at, double bytes) { sent_.emplace_back(at, bytes); }

  /// When next() may have something; k_never: not before add() or sent().
  simulation::Picoseconds resume_at(simulation::Picoseconds now) const {
    if (ready_.empty()) return simulation::k_never;
    if (ready_.front().first > now) return ready_.front().first;
    return sent_.empty() ? simulation::k_never : sent_.front().first;
  }

 private:
  double limit_;
  double ahead_ = 0;
  std::deque<std::pair<simulation::Picoseconds, CopyCommand const*>> ready_;
  std::deque<std::pair<simulation::Picoseconds, double>> sent_;
};

}  // namespace tessera::overlap
