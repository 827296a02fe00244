// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "tessera/measure/machine_profile.hpp"

namespace tessera {
namespace {

constexpr int k_warp = 32;

int round_up(int value, int step) { return (value + step - 1) / step * step; }

struct Limits {
  int slots, threads, registers, shared;
  int least() const { return std::min(std::min(slots, threads), std::min(registers, shared)); }
};

Limits limits(MachineProfile const& machine, Resources const& r) {
  Limits result{};
  int const warps = round_up(std::max(r.threads, 1), k_warp) / k_warp;
  int const registers =
      warps * round_up(std::max(r.registers_per_thread, 1) * k_warp, machine.register_granularity);
  int const shared = round_up(r.shared_bytes + machine.shared_reserved_per_block, machine.shared_granularity);
  result.slots = machine.blocks_per_sm;
  result.threads = machine.threads_per_sm / (warps * k_warp);
  result.registers = machine.registers_per_sm / registers;
  result.shared = r.shared_bytes > machine.shared_bytes_per_block ? 0
                  : shared > 0                                    ? machine.shared_bytes_per_sm / shared
                                                                  : machine.blocks_per_sm;
  return result;
}

}  // namespace

int occupancy(MachineProfile const& machine, Resources const& resources) {
  return limits(machine, resources).least();
}

std::string occupancy_limiter(MachineProfile const& machine, Resources const& resources) {
  auto const l = limits(machine, resources);
  if (l.shared == l.least()) return "shared memory";
  if (l.registers == l.least()) return "registers";
  if (l.threads == l.least()) return "threads";
  return "block slots";
}

}  // namespace tessera
