// SPDX-License-Identifier: Apache-2.0
// Descriptors of files that ranks of one host hand each other: of a GPU's memory, for instance.
#pragma once

#include <memory>
#include <string>
#include <tessera/ranks/meeting.hpp>
#include <vector>

namespace tessera {

class Descriptors {
 public:
  /// A call of all ranks. E0586. Where some ranks do not reach each other's sockets, why_not() says so on
  /// all.
  static Expected<std::unique_ptr<Descriptors>> make(std::shared_ptr<Meeting> meeting);
  ~Descriptors();
  Descriptors(Descriptors const&) = delete;
  Descriptors& operator=(Descriptors const&) = delete;

  std::string const& why_not() const;

  /// One of each rank, to be closed by the caller; -1 at this rank's own place. `mine` stays the caller's. A
  /// call of all ranks; E0586.
  Expected<std::vector<int>> pass(int mine);

 private:
  struct State;
  explicit Descriptors(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tessera
