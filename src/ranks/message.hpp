// SPDX-License-Identifier: Apache-2.0
// What goes over a meeting's sockets: messages of a kind and some strings, with their length in front.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <tessera/diagnostic.hpp>
#include <vector>

namespace tessera::ranks {

enum class Kind : unsigned char {
  hello = 1,  ///< to rank 0: who comes
  welcome,    ///< to all: who all are
  offer,      ///< to rank 0: a call's number, its name, its deadline, and what this rank says
  answer,     ///< to all: what each rank has said
  failure,    ///< both ways: the group has ended; a diagnostic
  goodbye,    ///< to rank 0
};

struct Message {
  Kind kind = Kind::hello;
  std::vector<std::string> words;

  bool operator==(Message const&) const = default;
};

std::string encode(Message const& message);

/// Bytes as they come, to messages.
class Decoder {
 public:
  void hear(std::string_view bytes) { bytes_ += bytes; }
  /// The next one that is whole.
  std::optional<Message> next();
  /// What has come is no message: somebody else's.
  bool strange() const { return strange_; }

 private:
  std::string bytes_;
  bool strange_ = false;
};

Message failure_of(Diagnostic const& diagnostic);
Diagnostic diagnostic_of(Message const& failure);

}  // namespace tessera::ranks
