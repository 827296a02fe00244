// SPDX-License-Identifier: Apache-2.0
// A chain of hash tiles under a random plan, launched many times, every result compared.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "soak/batch.hpp"
#include "soak/case.hpp"

namespace tessera::soak {

class SoakedChain {
 public:
  /// The plan is made of the number alone, and so are the streams' priorities. `waits`: a plan with tiles
  /// that others wait for while they are computed. `deadline_seconds` of one wait.
  SoakedChain(std::uint64_t number, bool waits, double deadline_seconds);
  ~SoakedChain();

  /// Empty: it can be launched. Else why this plan cannot run on this GPU.
  std::string const& refusal() const;
  std::string description() const;

  /// Launches from so many threads in turns, then waits for all. Errors end it.
  Batch run(int launches, int threads, bool by_graph);

  /// Of the next batch: launch `at` has this fault, in a tile or a kernel by a random number. A tile is held
  /// until a wait has given up. SMs are the caller's affair: then nothing before the error is compared.
  void break_launch(int at, Fault fault, std::uint64_t random);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::soak
