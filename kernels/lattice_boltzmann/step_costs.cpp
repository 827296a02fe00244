// SPDX-License-Identifier: Apache-2.0
#include "kernels/lattice_boltzmann/step_costs.hpp"

#include <cmath>

namespace tessera::lattice_boltzmann {

double measured(MachineProfile const& machine, char const* id, char const* condition, double is,
                double otherwise) {
  if (!machine.probe) return otherwise;
  for (auto const& one : machine.probe->figures) {
    auto const at = one.at.find(condition);
    if (one.id == id && (at == one.at.end() || at->second == is)) return one.median;
  }
  return otherwise;
}

double clock_of(MachineProfile const& machine) {
  return measured(machine, "timer.sm_clock", "", 0, machine.clock_ghz);
}

double l2_rate(MachineProfile const& machine) {
  return measured(machine, "memory.l2.read", "bytes", 8 << 20, machine.l2_gbps * k_l2_read);
}

double copy_rate(MachineProfile const& machine) {
  double const in = machine.dram_gbps, out = measured(machine, "memory.dram.write", "", 0, in);
  return 2 * in * out / (in + out) * k_share_of_copy;
}

double barrier_ns(MachineProfile const& machine, bool of_groups) {
  return measured(machine, of_groups ? "grid.barrier.cooperative.data" : "grid.barrier.own.data",
                  "blocks_per_sm", 1, 1200);
}

ChipWork work_of(ChipBlock const& block) {
  ChipWork work;
  for (auto const& side : block.side) {
    double const shown = side.size_u * side.size_v;
    work.taken += std::ceil(side.taken / 32.0), work.shown += std::ceil(shown / 32.0);
    work.taken_cells += side.taken, work.shown_cells += shown;
  }
  work.rim = std::ceil(block.rim() / 32.0);
  work.inside = std::ceil((block.cells() - block.rim()) / 32.0);
  return work;
}

}  // namespace tessera::lattice_boltzmann
