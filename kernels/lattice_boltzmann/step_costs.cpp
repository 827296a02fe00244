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

namespace {

/// Is the block that has the cell (u, v) behind a side in this one's cluster?
bool in_cluster(ChipCut const& cut, ChipBlock const& block, int side, int u, int v) {
  int at[3] = {};
  block.side[side].source(side, u, v, at);
  for (int a = 0; a < 3; ++a) at[a] += block.own[a];
  return cut.rank_beside(block.own, at) >= 0;
}

/// Cells of the rim beside blocks of the same cluster, straight ahead or across an edge.
int linked_cells(ChipCut const& cut, ChipBlock const& block) {
  // Along each axis: the first, those between, the last.
  int cells = 0;
  for (int k = 0; k < 27; ++k) {
    int count = 1, part[3] = {k % 3, k / 3 % 3, k / 9};
    unsigned sides = 0;
    for (int a = 0; a < 3; ++a) {
      count *= part[a] == 0 ? 1 : part[a] == 1 ? block.inner(a) : block.size[a] > 1 ? 1 : 0;
      if (part[a] == 0) sides |= 1u << (2 * a);
      if (part[a] == 2 || block.size[a] == 1) sides |= 2u << (2 * a);
    }
    bool linked = false;
    for (int i = 1; i < k_directions && !linked; ++i) {
      int from[3] = {};
      bool crosses = false;
      for (int a = 0; a < 3; ++a) {
        int const step = -velocity_along(a, i);
        bool const over = step != 0 && (sides >> (2 * a + (step < 0 ? 0 : 1)) & 1) != 0;
        from[a] = block.own[a] + (over ? step : 0);
        crosses = crosses || over;
      }
      linked = crosses && cut.rank_beside(block.own, from) >= 0;
    }
    if (linked) cells += count;
  }
  return cells;
}

}  // namespace

ChipWork work_of(ChipCut const& cut, ChipBlock const& block) {
  ChipWork work;
  for (int s = 0; s < k_sides; ++s) {
    auto const& side = block.side[s];
    bool const ahead = in_cluster(cut, block, s, 0, 0);
    double shown = ahead ? 0 : side.size_u * side.size_v, taken = shown;
    // Rows and columns around: what comes across an edge is taken from there, and is shown in this plane by
    // the block there.
    auto const around = [&](int u, int v, int cells) {
      if (in_cluster(cut, block, s, u, v)) return;
      taken += cells;
      if (ahead) shown += cells;
    };
    if (side.around_u) around(-1, 0, side.size_v), around(side.size_u, 0, side.size_v);
    if (side.around_v) around(0, -1, side.size_u), around(0, side.size_v, side.size_u);
    work.taken += std::ceil(taken / 32.0), work.shown += std::ceil(shown / 32.0);
    work.taken_cells += taken, work.shown_cells += shown;
  }
  int const linked = linked_cells(cut, block);
  work.linked = std::ceil(linked / 32.0);
  work.rim = std::ceil((block.rim() - linked) / 32.0) + work.linked;
  work.inside = std::ceil((block.cells() - block.rim()) / 32.0);
  return work;
}

}  // namespace tessera::lattice_boltzmann
