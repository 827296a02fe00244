// SPDX-License-Identifier: Apache-2.0
// What a soak has done so far.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace tessera::soak {

/// Of one kind of fault, from the party alone that had it.
struct FaultCount {
  std::uint64_t injected = 0;
  std::uint64_t said = 0;   ///< the library said that something went wrong
  std::uint64_t right = 0;  ///< nothing was said, and all results of the batch are right: only late
  bool operator==(FaultCount const&) const = default;
};

struct Counts {
  std::uint64_t cases = 0;
  std::uint64_t launches = 0;       ///< whose results were compared
  std::uint64_t refused_plans = 0;  ///< plans that this GPU cannot run, with a reason
  std::map<std::string, FaultCount> faults;
  bool operator==(Counts const&) const = default;

  void add(Counts const& more);
  FaultCount all() const;
  /// Of faults that take a deadline, those of which it was met.
  std::uint64_t stalls() const;
  /// Empty, or a kind of fault that should stall and never has, however often: then it tests nothing.
  std::string never_stalls() const;
};

/// For a file to go on from: the seed, and what was done.
std::string state_text(std::uint64_t seed, Counts const& counts);
struct State {
  std::uint64_t seed = 0;
  Counts counts;
};
std::optional<State> read_state(std::string const& text);

/// One line, for a record.
std::string to_json(State const& state, int failures, double seconds);

}  // namespace tessera::soak
