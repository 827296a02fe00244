// SPDX-License-Identifier: Apache-2.0
// Times several ways to do the same, in turns.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "arena.hpp"

namespace tessera::bench {

struct Way {
  std::string name;
  /// Enqueues one call that reads the array's part number `i`.
  std::function<void(int i, cudaStream_t)> call;
};

struct Timing {
  double median = 0, p05 = 0, p95 = 0;  ///< microseconds a call
};

struct Turns {
  int calls = 32;   ///< in a graph
  int rounds = 21;  ///< of all ways in turn
  bool cold = false;
};

/// Each way as replays of a graph of `calls` calls; cold: with other lines in the L2 before each replay.
std::vector<Timing> time_graphs(Arena const& arena, std::vector<Way> const& ways, Turns const& turns);

/// Each way as `calls` calls one after the other, from the first call to the end of the last on the host's
/// clock.
std::vector<Timing> time_calls(Arena const& arena, std::vector<Way> const& ways, Turns const& turns);

}  // namespace tessera::bench
