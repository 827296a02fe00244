// SPDX-License-Identifier: Apache-2.0
#include "tessera/ranks/descriptors.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "socket.hpp"

namespace tessera {

using ranks::Clock;
using ranks::Socket;

namespace {

/// A name without a file, which ends with its socket.
struct Place {
  sockaddr_un address{};
  socklen_t length = 0;

  explicit Place(std::string const& name) {
    address.sun_family = AF_UNIX;
    name.copy(address.sun_path + 1, sizeof address.sun_path - 1);
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  sockaddr const* get() const { return reinterpret_cast<sockaddr const*>(&address); }
};

Socket unix_socket() { return Socket(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)); }

bool is_of_this_user(Socket const& one) {
  ucred who{};
  socklen_t length = sizeof who;
  return getsockopt(one.get(), SOL_SOCKET, SO_PEERCRED, &who, &length) == 0 && who.uid == getuid();
}

/// A byte, and the descriptor beside it.
union Control {
  char bytes[CMSG_SPACE(sizeof(int))];
  cmsghdr align;
};

bool send_descriptor(Socket const& to, int descriptor) {
  char byte = 'd';
  iovec data{&byte, 1};
  Control control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  auto* const head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(head), &descriptor, sizeof descriptor);
  return sendmsg(to.get(), &message, MSG_NOSIGNAL) == 1;
}

/// -1: there is none.
int receive_descriptor(Socket const& from) {
  char byte = 0;
  iovec data{&byte, 1};
  Control control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  if (recvmsg(from.get(), &message, MSG_CMSG_CLOEXEC) != 1) return -1;
  auto const* const head = CMSG_FIRSTHDR(&message);
  if (head == nullptr || head->cmsg_type != SCM_RIGHTS) return -1;
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(head), sizeof descriptor);
  return descriptor;
}

constexpr double k_deadline_s = 6;
Clock::time_point deadline() {
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(k_deadline_s));
}

}  // namespace

struct Descriptors::State {
  std::shared_ptr<Meeting> meeting;
  std::vector<Socket> peers;  ///< by rank
  std::string why_not;

  tl::unexpected<Diagnostics> lost(int rank, std::string const& what) const {
    if (auto const known = meeting->lost()) return refuse(*known);
    auto const& process = meeting->process(rank);
    Diagnostic one;
    one.code = "E0586";
    one.message = "rank " + std::to_string(rank) + " (process " + std::to_string(process.process) + " on " +
                  process.host + ") " + what;
    one.suggestion = "see what that process says, and start all ranks anew";
    meeting->give_up(one);
    return refuse(std::move(one));
  }

  /// A rank calls those before it.
  std::string call(std::vector<std::string> const& names) {
    for (int rank = 0; rank < meeting->rank(); ++rank) {
      auto one = unix_socket();
      Place const place(names[static_cast<std::size_t>(rank)]);
      char const own = static_cast<char>(meeting->rank());
      if (!one || connect(one.get(), place.get(), place.length) != 0 || !one.say({&own, 1}, deadline()))
        return "rank " + std::to_string(meeting->rank()) + " does not reach the socket of rank " +
               std::to_string(rank) + " (" + std::strerror(errno) + "): they are in different containers";
      peers[static_cast<std::size_t>(rank)] = std::move(one);
    }
    return "";
  }

  /// All have called: nobody is waited for, but for its number.
  Expected<void> accept_all(Socket const& listening) {
    for (int waits_for = meeting->size() - 1 - meeting->rank(); waits_for > 0;) {
      auto one = ranks::accept_from(listening);
      if (!one) return lost(meeting->size() - 1, "has not called this rank's socket");
      if (!is_of_this_user(one)) continue;
      // No more than its number: a descriptor that is read as bytes is lost.
      char number = 0;
      if (!one.wait(deadline()) || recv(one.get(), &number, 1, 0) != 1) continue;
      int const rank = number;
      if (rank <= meeting->rank() || rank >= meeting->size() || peers[static_cast<std::size_t>(rank)])
        continue;
      peers[static_cast<std::size_t>(rank)] = std::move(one);
      --waits_for;
    }
    return {};
  }
};

Descriptors::Descriptors(std::unique_ptr<State> state) : state_(std::move(state)) {}
Descriptors::~Descriptors() = default;

std::string const& Descriptors::why_not() const { return state_->why_not; }

Expected<std::unique_ptr<Descriptors>> Descriptors::make(std::shared_ptr<Meeting> meeting) {
  static std::atomic<int> made{0};
  auto state = std::make_unique<State>();
  state->meeting = std::move(meeting);
  auto& met = *state->meeting;
  state->peers.resize(static_cast<std::size_t>(met.size()));
  auto const name = "tessera." + std::to_string(met.process(met.rank()).process) + "." +
                    std::to_string(++made) + "." + std::to_string(met.rank());
  auto const listening = unix_socket();
  Place const place(name);
  constexpr int k_waiting = 64;
  bool const listens = listening && bind(listening.get(), place.get(), place.length) == 0 &&
                       listen(listening.get(), k_waiting) == 0;
  auto const names = met.exchange("sockets of ranks", listens ? name : "?");
  if (!names) return tl::make_unexpected(names.error());
  // A call is heard by the socket, before its rank accepts it.
  auto const reached = met.exchange("calls of ranks", state->call(*names));
  if (!reached) return tl::make_unexpected(reached.error());
  for (auto const& why : *reached)
    if (!why.empty() && state->why_not.empty()) state->why_not = why;
  if (state->why_not.empty())
    if (auto done = state->accept_all(listening); !done) return tl::make_unexpected(done.error());
  return std::unique_ptr<Descriptors>(new Descriptors(std::move(state)));
}

Expected<std::vector<int>> Descriptors::pass(int mine) {
  auto& state = *state_;
  auto const own = state.meeting->rank();
  std::vector<int> result(state.peers.size(), -1);
  auto const failed = [&](int rank, std::string const& what) {
    for (int const one : result)
      if (one >= 0) close(one);
    return state.lost(rank, what);
  };
  for (int rank = 0; rank < state.meeting->size(); ++rank)
    if (rank != own && !send_descriptor(state.peers[static_cast<std::size_t>(rank)], mine))
      return failed(rank, "does not take what it is handed");
  for (int rank = 0; rank < state.meeting->size(); ++rank) {
    if (rank == own) continue;
    auto const& from = state.peers[static_cast<std::size_t>(rank)];
    auto& one = result[static_cast<std::size_t>(rank)];
    if (!from.wait(deadline())) return failed(rank, "has not handed over its memory");
    one = receive_descriptor(from);
    if (one < 0) return failed(rank, "has ended, or has handed over nothing");
  }
  return result;
}

}  // namespace tessera
