// SPDX-License-Identifier: Apache-2.0
#include "kernels/lattice_boltzmann/cluster_cut.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "kernels/lattice_boltzmann/each_cut.hpp"
#include "kernels/lattice_boltzmann/on_chip.hpp"
#include "kernels/lattice_boltzmann/step_plan.hpp"

namespace tessera::lattice_boltzmann {
namespace {

/// Sizes that the probe has counted (residency.clusters); 16 is not for every GPU.
constexpr int k_sizes[] = {2, 4, 8};

/// Calls visit(cut) with each shape of clusters of so many blocks that divide the cut's.
template <class Visit>
void for_each_shape(ChipCut cut, int of, Visit const& visit) {
  for (int x = 1; x <= of; ++x)
    for (int y = 1; x * y <= of; ++y) {
      int const shape[3] = {x, y, of / (x * y)};
      bool divides = of % (x * y) == 0;
      for (int a = 0; a < 3; ++a) {
        divides = divides && cut.blocks[a] % shape[a] == 0;
        cut.cluster[a] = shape[a];
      }
      if (divides) visit(cut);
    }
}

/// Neighbours of a block in its cluster: all that it has, or as many as the cluster's edges allow.
int partners_of(ChipCut const& cut) {
  int count = 1;
  for (int const edge : cut.cluster) count *= std::min(edge, 3);
  return count - 1;
}

}  // namespace

int blocks_in_clusters(MachineProfile const& machine, int of) {
  if (machine.architecture != "sm_90") return 0;
  bool const probed = machine.probe && machine.probe->identity.sms == machine.sms;
  double const pairs = of == 2 ? machine.sms / 2 : 0;
  double const clusters = probed ? measured(machine, "residency.clusters", "cluster", of, pairs) : pairs;
  return std::min(of * static_cast<int>(clusters), machine.sms);
}

double cluster_hop_ns(ChipCut const& cut, MachineProfile const& machine) {
  // Plain stores and a release behind them, all blocks of a cluster at once, as the probe has it for clusters
  // of 2, 4 and 8.
  int const partners = partners_of(cut), consumers = partners <= 1 ? 1 : partners <= 3 ? 3 : 7;
  double const otherwise = 1000;
  if (!machine.probe) return otherwise;
  for (auto const& one : machine.probe->figures) {
    auto const is = [&](char const* condition, double value) {
      auto const at = one.at.find(condition);
      return at != one.at.end() && at->second == value;
    };
    if (one.id == "exchange.cluster.arrival" && is("bytes", 4096) && is("consumers", consumers) &&
        is("senders", consumers + 1) && is("in_flight_bytes", 0))
      return one.median;
  }
  return otherwise;
}

ClusterCost cluster_cost(ChipCut const& cut, MachineProfile const& machine) {
  auto const work = work_of(cut, ChipBlock(cut, cut.count() - 1));
  // A GPU that was not measured has no clock, and cuts are compared all the same.
  double const clock = clock_of(machine) > 0 ? clock_of(machine) : 1,
               share = 1 / (k_schedulers * k_share_of_issue * clock);
  // Who has waited for a neighbour finds the tables of the rim in the L2 only: its SM's cache is empty then.
  double const look = measured(machine, "memory.l2.hit", "", 0, 200);
  if (!in_one_cluster(cut)) {
    double const instructions = k_rim * work.rim + k_linked_more * work.linked + k_inside * work.inside +
                                k_shown * work.shown + k_taken * work.taken;
    return {instructions * share + k_exchange_ns + look,
            measured(machine, "pair.hop.token", "bytes", 4096, 500)};
  }
  // Few tasks, so that a warp's instructions one behind the other may be what takes longest. The hop goes on
  // while the inside is computed.
  double const chain = measured(machine, "check.add.chain", "", 0, 4) / clock;
  auto const ns = [&](double tasks, double instructions) {
    return std::max(instructions * share,
                    instructions / std::max(1.0, tasks) * std::ceil(tasks / (k_chip_threads / 32)) * chain);
  };
  double const rim = ns(work.rim, k_rim * work.rim + k_linked_more * work.linked);
  double const inside = ns(work.inside, k_inside * work.inside);
  double const meets = 2 * measured(machine, "block.syncthreads", "threads", 1024, 77) / clock;
  return {look + rim + inside + meets, std::max(0.0, cluster_hop_ns(cut, machine) - inside)};
}

std::optional<ChipCut> cluster_cut(Problem const& problem, MachineProfile const& machine) {
  std::optional<ChipCut> best;
  double least = std::numeric_limits<double>::infinity();
  auto const offer = [&](ChipCut const& cut, double ns) {
    if (ns < least) least = ns, best = cut;
  };
  for (int const of : k_sizes) {
    int const blocks = blocks_in_clusters(machine, of);
    if (problem.size() > 1LL * blocks * k_chip_cells) continue;
    // Of several clusters as chip_cut() has it, by tasks, so that steps can be compared.
    std::optional<ChipCut> even;
    std::pair<double, double> cheapest{std::numeric_limits<double>::infinity(), 0};
    for_each_cut(problem, blocks, [&](ChipCut const& cut) {
      if (cut.count() % of != 0 || cut.most_cells() > k_chip_cells) return;
      bool const one = cut.count() == of;
      double const tasks = one ? 0 : tasks_of(cut);
      if (!one && tasks > cheapest.first) return;
      for_each_shape(cut, of, [&](ChipCut const& shaped) {
        double const ns = cluster_cost(shaped, machine).ns();
        if (one) return offer(shaped, ns);
        if (std::pair(tasks, ns) < cheapest) cheapest = {tasks, ns}, even = shaped;
      });
    });
    if (even) offer(*even, cheapest.second);
  }
  return best;
}

}  // namespace tessera::lattice_boltzmann
