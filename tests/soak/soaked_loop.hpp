// SPDX-License-Identifier: Apache-2.0
// A random loop in persistent launches, with roles and without, launched many times, every result compared.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "soak/batch.hpp"

namespace tessera::soak {

class SoakedLoop {
 public:
  /// The loop, its plan and how many iterations each launch has are made of the number alone.
  SoakedLoop(std::uint64_t number, double deadline_seconds);
  ~SoakedLoop();

  std::string const& refusal() const;
  std::string description() const;

  /// Launches, then waits for all. Errors end it.
  Batch run(int launches);
  /// Of the next batch: a tile of launch `at`, of any iteration, is held until a wait has given up.
  void hold_a_tile(int at, std::uint64_t random);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::soak
