// SPDX-License-Identifier: Apache-2.0
// What is left on an SM while blocks of several kernels share it; for one kernel the same numbers as
// occupancy().
#pragma once

#include <algorithm>
#include <cstdint>

#include "tessera/measure/machine_profile.hpp"

namespace tessera {

struct SmRoom {
  std::int64_t slots = 0, threads = 0, registers = 0, shared = 0;

  bool holds(SmRoom const& block) const {
    return block.slots <= slots && block.threads <= threads && block.registers <= registers &&
           block.shared <= shared;
  }
  SmRoom& operator-=(SmRoom const& block) { return add(block, -1); }
  SmRoom& operator+=(SmRoom const& block) { return add(block, 1); }
  bool operator==(SmRoom const&) const = default;

 private:
  SmRoom& add(SmRoom const& block, int sign) {
    slots += sign * block.slots;
    threads += sign * block.threads;
    registers += sign * block.registers;
    shared += sign * block.shared;
    return *this;
  }
};

inline SmRoom empty_sm(MachineProfile const& machine) {
  return {machine.blocks_per_sm, machine.threads_per_sm, machine.registers_per_sm,
          machine.shared_bytes_per_sm};
}

/// What one block takes: registers by the warp, shared memory by the block (CUDA's granularities).
inline SmRoom room_of(MachineProfile const& machine, Resources const& resources) {
  auto const round_up = [](std::int64_t value, std::int64_t step) {
    return step > 0 ? (value + step - 1) / step * step : value;
  };
  auto const warps = round_up(std::max(resources.threads, 1), 32) / 32;
  return {1, warps * 32,
          warps * round_up(std::max<std::int64_t>(resources.registers_per_thread, 1) * 32,
                           machine.register_granularity),
          round_up(static_cast<std::int64_t>(resources.shared_bytes) + machine.shared_reserved_per_block,
                   machine.shared_granularity)};
}

}  // namespace tessera
