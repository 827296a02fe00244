// SPDX-License-Identifier: Apache-2.0
// The ports of a GPU's SMs: how fast each of them loads and stores. A place to put other ports (docs/t3.md).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "simulate/event_queue.hpp"
#include "tessera/measure/machine_profile.hpp"

namespace tessera::overlap {

using simulation::Picoseconds;

/// An SM's requests leave one after the other, as wide as MachineProfile::sm_load_gbps. Its stores take the
/// time of OverlapHardware::sm_store_bytes_per_clock, wavefront by wavefront of each work-group.
class SmPorts {
 public:
  explicit SmPorts(MachineProfile const& machine)
      : ps_per_byte_(1000 / machine.sm_load_gbps),
        stored_per_ns_(machine.overlap->sm_store_bytes_per_clock * machine.clock_ghz),
        free_(static_cast<std::size_t>(machine.sms), 0) {}

  /// An SM asks for so many bytes; returns when its port has passed them.
  Picoseconds load(std::int32_t sm, double bytes, Picoseconds now) {
    auto& free = free_[static_cast<std::size_t>(sm)];
    free = std::max(free, now) + static_cast<Picoseconds>(bytes * ps_per_byte_);
    return free;
  }
  /// How long a work-group takes to store so many bytes.
  Picoseconds store_time(double bytes) const { return simulation::picoseconds(bytes / stored_per_ns_); }

 private:
  double ps_per_byte_, stored_per_ns_;
  std::vector<Picoseconds> free_;  ///< by SM: when its port is free
};

}  // namespace tessera::overlap
