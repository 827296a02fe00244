// SPDX-License-Identifier: Apache-2.0
// Sockets that close themselves, whose waits have deadlines. None blocks.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera::ranks {

using Clock = std::chrono::steady_clock;

class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    if (this != &other) close(), descriptor_ = std::exchange(other.descriptor_, -1);
    return *this;
  }

  int get() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }
  void close();

  enum class Heard { bytes, nothing, end };
  /// What has come so far, behind `to`.
  Heard hear(std::string& to) const;
  /// Waits until something has come, or the other end has ended. False: not by `until`.
  bool wait(Clock::time_point until) const;
  /// False where the other end is gone, or does not take it by `until`.
  bool say(std::string_view bytes, Clock::time_point until) const;
  /// What it takes now; -1: the other end is gone.
  long say_some(std::string_view bytes) const;
  /// No more will be said.
  void end_saying() const;

 private:
  int descriptor_ = -1;
};

/// Waits for any of them to be read, or to be written where `writes` says so. At most `milliseconds`.
void wait_for_any(std::vector<int> const& descriptors, std::vector<bool> const& writes, int milliseconds);

/// At a port of this host; of its own loop alone where `address` says so. Empty, with the reason.
Socket listen_at(std::string const& address, int port, std::string& why);
/// Who has come; empty: nobody.
Socket accept_from(Socket const& listening);
/// Empty where nobody listens, with the reason.
Socket connect_to(std::string const& address, int port, Clock::time_point until, std::string& why);
/// Two ends that wake whoever waits for one of them.
std::pair<Socket, Socket> socket_pair();

std::string host_name();
long long process_number();

}  // namespace tessera::ranks
