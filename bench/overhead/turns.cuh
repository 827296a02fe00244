// SPDX-License-Identifier: Apache-2.0
// Ways to do one thing, timed in turns as replays of graphs, and the memory that their synchronization needs.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "gpu/event_timer.hpp"
#include "gpu/graph.hpp"
#include "tessera/sync.cuh"

namespace tessera::bench {

/// Zeroed once; freed with the process.
template <class T>
T* zeroed(std::size_t count) {
  T* memory = nullptr;
  gpu::ok(cudaMalloc(&memory, count * sizeof(T)));
  gpu::ok(cudaMemset(memory, 0, count * sizeof(T)));
  return memory;
}
inline ChainMemory chain_memory(long long semaphores) {
  return {zeroed<unsigned>(static_cast<std::size_t>(semaphores)),
          zeroed<unsigned long long>(static_cast<std::size_t>(counters_for(2)))};
}

/// Which wait gave up, as what an exception says.
inline std::string met_deadline(std::string const& name, StallRecord const& stall) {
  return name + ": tile " + std::to_string(stall.tile) + " of stage " + std::to_string(stall.stage) +
         " waited for semaphore " + std::to_string(stall.semaphore) + ", which was " +
         std::to_string(stall.seen) + " instead of " + std::to_string(stall.expected) + ", for " +
         std::to_string(stall.waited_ns / 1000000) + " ms";
}

/// Microseconds of a piece of work, by graph and round; a graph has `pieces` of them. Each sample follows a
/// replay of the same graph, so that the host is never what is measured.
inline std::vector<std::vector<double>> take_turns(std::deque<gpu::Graph> const& graphs, cudaStream_t stream,
                                                   int rounds, int pieces) {
  constexpr int warm_ups = 3;
  std::vector<std::vector<double>> us(graphs.size());
  gpu::EventTimer timer;
  for (int round = -warm_ups; round < rounds; ++round)
    for (std::size_t k = 0; k < graphs.size(); ++k) {
      // Forth and back, from another start each round: no way always follows the same one.
      auto const from = static_cast<std::size_t>(round + warm_ups);
      std::size_t const v = ((from % 2 == 0 ? k : graphs.size() - 1 - k) + from) % graphs.size();
      graphs[v].replay(stream);
      double const ns = graphs[v].ns(stream, timer);
      if (round >= 0) us[v].push_back(ns / 1e3 / pieces);
    }
  return us;
}

}  // namespace tessera::bench
