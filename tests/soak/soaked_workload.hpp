// SPDX-License-Identifier: Apache-2.0
// A shipped workload on a stream of its own, launched many times, every result compared bit by bit.
#pragma once

#include <memory>

#include "soak/case.hpp"
#include "soak/soaked_chain.hpp"

namespace tessera::soak {

class SoakedWorkload {
 public:
  /// Its first result is held to plain arithmetic, all others to that. Waits for the device: while no other
  /// thread captures. `deadline_seconds` of one wait. Throws where the workload cannot be made, or is wrong
  /// by itself.
  /// `by_graph`: a graph of one launch is captured, too.
  SoakedWorkload(Workload workload, double deadline_seconds, bool by_graph);
  ~SoakedWorkload();

  /// As SoakedChain::run().
  Batch run(int launches, bool by_graph);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::soak
