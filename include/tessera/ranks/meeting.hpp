// SPDX-License-Identifier: Apache-2.0
// Processes that are the ranks of one group meet over sockets, and tell each other what they have. Rank 0
// listens, in a thread of its process; every wait has a deadline, and what goes wrong is said to every rank.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <tessera/diagnostic.hpp>
#include <tessera/ranks/launched.hpp>
#include <vector>

namespace tessera {

struct MeetingOptions {
  /// Of each wait for the others. Every rank has its error a second and a half later.
  double deadline_seconds = 8;
  /// Of what the ranks have in common. They refuse to meet where it differs.
  std::string version;
};

/// What is known of a rank's process.
struct RankProcess {
  long long process = 0;  ///< its number on its host
  std::string host;
};

class Meeting {
 public:
  /// Waits for all ranks. E0585: which have not come, differ, or what is wrong with the port.
  static Expected<std::shared_ptr<Meeting>> join(LaunchedRank const& launched,
                                                 MeetingOptions const& options = {});
  /// Says goodbye.
  ~Meeting();
  Meeting(Meeting const&) = delete;
  Meeting& operator=(Meeting const&) = delete;

  int rank() const;
  int size() const;
  RankProcess const& process(int rank) const;

  /// What each rank has to say, of all ranks. All ranks make the same calls, with the same `what`, in the
  /// same order. E0586 names the rank that is gone, has not come in time, or makes another call; from then on
  /// every call says it again, on all ranks. `deadline_seconds` 0: the meeting's.
  Expected<std::vector<std::string>> exchange(std::string const& what, std::string bytes = "",
                                              double deadline_seconds = 0);

  /// Whether the group has ended, without waiting: E0586.
  std::optional<Diagnostic> lost() const;

  /// Ends the group on all ranks, with what is said: E0586.
  void give_up(Diagnostic const& why);

 private:
  struct State;
  explicit Meeting(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tessera
