// SPDX-License-Identifier: Apache-2.0
#include "socket.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

namespace tessera::ranks {
namespace {

int milliseconds_until(Clock::time_point until) {
  auto const left = until - Clock::now();
  if (left <= Clock::duration::zero()) return 0;
  auto const whole = std::chrono::duration_cast<std::chrono::milliseconds>(left).count();
  return static_cast<int>(std::min<long long>(whole + 1, 1000));
}

/// Until it is ready for `events`. False: not in time.
bool ready(int descriptor, short events, Clock::time_point until) {
  for (;;) {
    pollfd one{descriptor, events, 0};
    if (poll(&one, 1, milliseconds_until(until)) > 0) return true;
    if (Clock::now() >= until) return false;
  }
}

struct Addresses {
  addrinfo* first = nullptr;
  ~Addresses() {
    if (first != nullptr) freeaddrinfo(first);
  }
};

std::string find(std::string const& address, int port, Addresses& found) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  int const error = getaddrinfo(address.c_str(), std::to_string(port).c_str(), &wanted, &found.first);
  return error == 0 ? "" : gai_strerror(error);
}

/// Not whatever leads there: the name of a host often means its own loop on that host alone.
bool is_loop(std::string const& address) {
  return address == "localhost" || address == "127.0.0.1" || address == "::1";
}

Socket bound(int family, sockaddr const* address, socklen_t length, std::string& why) {
  Socket one(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  int const yes = 1, no = 0;
  if (one) setsockopt(one.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (one && family == AF_INET6) setsockopt(one.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
  constexpr int k_waiting = 64;
  if (one && bind(one.get(), address, length) == 0 && listen(one.get(), k_waiting) == 0) return one;
  why = std::strerror(errno);
  return {};
}

void without_delay(Socket const& one) {
  int const yes = 1;
  setsockopt(one.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

}  // namespace

void Socket::close() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

Socket::Heard Socket::hear(std::string& to) const {
  char bytes[65536];
  auto const count = recv(descriptor_, bytes, sizeof bytes, MSG_DONTWAIT);
  if (count > 0) {
    to.append(bytes, static_cast<std::size_t>(count));
    return Heard::bytes;
  }
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return Heard::nothing;
  return Heard::end;
}

bool Socket::wait(Clock::time_point until) const { return ready(descriptor_, POLLIN, until); }

long Socket::say_some(std::string_view bytes) const {
  auto const count = send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (count >= 0) return static_cast<long>(count);
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : -1;
}

bool Socket::say(std::string_view bytes, Clock::time_point until) const {
  while (!bytes.empty()) {
    auto const count = say_some(bytes);
    if (count < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
    if (!bytes.empty() && !ready(descriptor_, POLLOUT, until)) return false;
  }
  return true;
}

void Socket::end_saying() const { shutdown(descriptor_, SHUT_WR); }

void wait_for_any(std::vector<int> const& descriptors, std::vector<bool> const& writes, int milliseconds) {
  std::vector<pollfd> all;
  for (std::size_t i = 0; i < descriptors.size(); ++i)
    all.push_back({descriptors[i], static_cast<short>(POLLIN | (writes[i] ? POLLOUT : 0)), 0});
  poll(all.data(), all.size(), milliseconds);
}

Socket listen_at(std::string const& address, int port, std::string& why) {
  Addresses found;
  why = find(address, port, found);
  if (!why.empty()) return {};
  if (is_loop(address))
    return bound(found.first->ai_family, found.first->ai_addr, found.first->ai_addrlen, why);
  // The name may be that of a router in front of this host.
  sockaddr_in6 any6{};
  any6.sin6_family = AF_INET6;
  any6.sin6_addr = in6addr_any;
  any6.sin6_port = htons(static_cast<std::uint16_t>(port));
  if (auto one = bound(AF_INET6, reinterpret_cast<sockaddr*>(&any6), sizeof any6, why)) return one;
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = any6.sin6_port;
  return bound(AF_INET, reinterpret_cast<sockaddr*>(&any), sizeof any, why);
}

Socket accept_from(Socket const& listening) {
  Socket one(accept4(listening.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (one) without_delay(one);
  return one;
}

Socket connect_to(std::string const& address, int port, Clock::time_point until, std::string& why) {
  Addresses found;
  why = find(address, port, found);
  for (auto const* at = found.first; at != nullptr; at = at->ai_next) {
    Socket one(socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    int error = 0;
    if (!one || (connect(one.get(), at->ai_addr, at->ai_addrlen) != 0 && errno != EINPROGRESS)) {
      why = std::strerror(errno);
      continue;
    }
    socklen_t length = sizeof error;
    if (!ready(one.get(), POLLOUT, until))
      why = "no answer";
    else if (getsockopt(one.get(), SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == 0) {
      without_delay(one);
      return one;
    } else
      why = std::strerror(error);
  }
  return {};
}

std::pair<Socket, Socket> socket_pair() {
  int both[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, both) != 0) return {};
  return {Socket(both[0]), Socket(both[1])};
}

std::string host_name() {
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) != 0) return "?";
  return name;
}

long long process_number() { return getpid(); }

}  // namespace tessera::ranks
