// SPDX-License-Identifier: Apache-2.0
// What rank 0 keeps of a meeting: who has come, who has said what, and what is wrong. Without sockets and
// without a clock: messages in, messages out.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tessera/diagnostic.hpp>
#include <utility>
#include <vector>

#include "message.hpp"

namespace tessera::ranks {

/// A rank as it introduces itself.
struct Hello {
  int protocol = 1;
  std::string version;
  int rank = 0;
  int size = 1;
  long long process = 0;
  std::string host;
};
Message message_of(Hello const& hello);
std::optional<Hello> hello_of(Message const& message);

/// An offer of a call, as a rank sends it.
struct Offer {
  long long number = 0;  ///< of the rank's calls, from 1
  std::string what;
  double deadline_s = 0;
  std::string bytes;
};
Message message_of(Offer const& offer);
std::optional<Offer> offer_of(Message const& message);

class Desk {
 public:
  /// `host` is rank 0's own introduction: others have to agree with it. Seconds of any clock.
  Desk(Hello host, double now_s, double deadline_s)
      : host_(std::move(host)), since_s_(now_s), deadline_s_(deadline_s) {}

  void hear(int connection, Message const& message, double now_s);
  /// A connection that has ended.
  void end(int connection);
  /// Rank 0 leaves.
  void close();
  /// Sees whether a deadline has passed.
  void look(double now_s);
  /// What is to be sent, to which connection; nothing is kept.
  std::vector<std::pair<int, Message>> take() { return std::exchange(out_, {}); }
  std::optional<Diagnostic> const& failure() const { return failure_; }

 private:
  struct Seat {
    int connection = -1;
    Hello hello;
    bool left = false;
    std::optional<Offer> offer;
  };

  std::string name(int rank) const;
  void introduce(int connection, Hello const& hello);
  void collect(int rank, Offer const& offer, double now_s);
  void fail(std::string code, std::string message, std::string hint, std::vector<std::string> notes = {});
  void fail(Diagnostic why);
  void to_all(Message const& message);
  int rank_of(int connection) const;

  Hello host_;
  double since_s_;  ///< of the wait that is on: for all ranks, or for what they offer
  double deadline_s_;
  bool met_ = false;
  bool collecting_ = false;
  std::map<int, Seat> seats_;  ///< by rank
  std::optional<Diagnostic> failure_;
  std::vector<std::pair<int, Message>> out_;
};

}  // namespace tessera::ranks
