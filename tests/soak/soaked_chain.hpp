// SPDX-License-Identifier: Apache-2.0
// A chain of hash tiles under a random plan, launched many times, every result compared.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "soak/case.hpp"

namespace tessera::soak {

/// What came of a batch of launches.
struct Batch {
  std::string error;  ///< what the library said; empty: nothing
  std::uint64_t launches = 0;
  std::uint64_t wrong = 0;  ///< launches whose values differ
  std::string first_wrong;  ///< which value of which round
};

class SoakedChain {
 public:
  /// The plan is made of the number alone, and so is the stream's priority. `deadline_seconds` of one wait.
  SoakedChain(std::uint64_t number, double deadline_seconds);
  ~SoakedChain();

  /// Empty: it can be launched. Else why this plan cannot run on this GPU.
  std::string const& refusal() const;
  std::string description() const;

  /// Launches, then waits for all. Errors end it; launches before count.
  Batch run(int launches, bool by_graph);

  /// From now on one tile of the chain's next round takes so long.
  void make_a_tile_late(int milliseconds);
  /// The next launch throws while it is enqueued, or has too many arguments for one of its kernels.
  void throw_at_next_launch();
  void overflow_at_next_launch();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::soak
