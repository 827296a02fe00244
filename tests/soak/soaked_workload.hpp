// SPDX-License-Identifier: Apache-2.0
// A shipped workload, launched many times, every result compared bit by bit.
#pragma once

#include <memory>

#include "soak/batch.hpp"
#include "soak/case.hpp"

namespace tessera::soak {

class SoakedWorkload {
 public:
  /// Its first result is held to plain arithmetic, all others to that. Waits for the device: while no other
  /// thread captures. Throws where the workload cannot be made, or is wrong by itself. `stalls`: stall() may
  /// be called. `by_graph`: a graph of one launch is captured, too, if it can be.
  SoakedWorkload(Workload workload, double deadline_seconds, bool stalls, bool by_graph);
  ~SoakedWorkload();

  /// Launches, by the graph if there is one, which several threads replay in turns; then waits for all.
  Batch run(int launches, int threads);
  /// One launch that should stall, to its end.
  Batch stall();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::soak
