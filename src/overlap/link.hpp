// SPDX-License-Identifier: Apache-2.0
// One direction of a link between two GPUs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>

#include "simulate/event_queue.hpp"

namespace tessera::overlap {

using simulation::Picoseconds;

/// A part of a tile, or of a chunk, on its way to a GPU's memory.
struct Packet {
  Picoseconds arrival = 0;
  std::int64_t unit = 0;  ///< wavefront tile at the receiver, or unit of a chunk
  bool update = false;
  double bytes = 0;
};

/// Sends one packet after the other at its bandwidth; the last byte arrives a latency later.
class Link {
 public:
  Link(double gbps, double latency_ns)
      : ps_per_byte_(1000 / gbps), latency_(static_cast<Picoseconds>(latency_ns * 1000)) {}

  /// Returns when the last byte has left.
  Picoseconds send(Picoseconds now, Packet packet) {
    free_ = std::max(free_, now) + static_cast<Picoseconds>(packet.bytes * ps_per_byte_);
    packet.arrival = free_ + latency_;
    bytes_ += packet.bytes;
    arriving_.push_back(packet);
    return free_;
  }

  bool empty() const { return arriving_.empty(); }
  Picoseconds next_arrival() const { return arriving_.front().arrival; }
  Packet receive() {
    auto const packet = arriving_.front();
    arriving_.pop_front();
    return packet;
  }
  double bytes() const { return bytes_; }

 private:
  double ps_per_byte_;
  Picoseconds latency_;
  Picoseconds free_ = 0;
  double bytes_ = 0;
  std::deque<Packet> arriving_;
};

}  // namespace tessera::overlap
