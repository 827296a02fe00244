// SPDX-License-Identifier: Apache-2.0
#include "measure/gpu/experiments.hpp"

#include "measure/gpu/list.hpp"

namespace tessera::probe {

std::vector<Experiment> experiments(std::vector<Experiment> const& more) {
  std::vector<Experiment> all = {
      {"identity", "GPU, driver, clocks", measure_identity},
      {"timers", "steps and offsets of clocks, cost of reading them", measure_timers},
      {"add", "one cost by two methods", measure_add},
      {"warp", "sync and shuffle of groups of 1 to 32 threads", measure_warp},
      {"block", "barriers of 32 to 1024 threads", measure_block},
      {"memory", "bandwidth and latency of DRAM and L2", measure_memory},
      {"cluster", "barrier, arrivals and loads inside a cluster", measure_cluster},
      {"grid", "barriers of a grid: cooperative groups' and the library's", measure_grid},
      {"pair_calls", "post, wait and ticket, as kernels call them", measure_pair_calls},
      {"pair_hop", "from block to block, by place, data and pollers", measure_pair_hop},
      {"exchange", "exchanges in a persistent launch, with memory at rest and streamed", measure_exchange},
      {"tau", "the tau model of thirteen ways to synchronize", measure_tau},
      {"launch", "what a launch costs: ordinary, cooperative, programmatic, across streams, in graphs",
       measure_launch},
      {"gap", "what lies between two kernels, by stamps in every block", measure_gap},
      {"processes", "the same from several processes, which differ", measure_processes},
      {"residency", "how many blocks, clusters and kernels are on the GPU together", measure_residency},
      {"order", "in which order blocks start; a million programmatic launches", measure_early_start},
      {"peer_access", "which GPUs reach each other", measure_peer_access},
      {"peer_hop", "flags and data from GPU to GPU", measure_peer_hop},
      {"peer_barrier", "barriers of GPUs inside kernels", measure_peer_barrier},
      {"peer_host", "barrier of GPUs by host threads", measure_peer_host},
      {"peer_bandwidth", "bytes between two GPUs", measure_peer_bandwidth},
      {"peer_nccl", "barrier of GPUs by NCCL", measure_peer_nccl},
      {"peer_reduce", "sum of an array on several GPUs", measure_peer_reduce},
      {"placement", "where a kernel should let the next one start", measure_placement},
      // Last: some of it ends only because its process is killed.
      {"pitfalls", "what happens when the rules are broken, each case in a process of its own",
       measure_pitfalls},
  };
  all.insert(all.end() - 1, more.begin(), more.end());
  return all;
}

}  // namespace tessera::probe
