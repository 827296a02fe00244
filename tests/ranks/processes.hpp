// SPDX-License-Identifier: Apache-2.0
// Real processes that meet, and what each of them is told.
#pragma once

#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <functional>
#include <string>

#include "tessera/ranks/meeting.hpp"

namespace tessera {

/// Long enough that a busy host meets it, and a deadline for what never comes.
constexpr double k_patience_s = 60, k_soon_s = 0.3;

/// What is said of a deadline that passes in vain. A busy host may not come so far before it passes: then ten
/// times as long, and a hundred times, which counts.
template <class Matcher>
std::string said_within_deadline(std::function<std::string(double)> const& say, Matcher const& wanted) {
  for (double const deadline_s : {k_soon_s, 10 * k_soon_s})
    if (auto said = say(deadline_s); testing::Matches(wanted)(said)) return said;
  return say(100 * k_soon_s);
}

/// A port of this host, with what keeps it from others; closed, it is free.
struct Port {
  int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int number = 0;

  Port() {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof at;
    EXPECT_EQ(bind(listening, reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
    EXPECT_EQ(getsockname(listening, reinterpret_cast<sockaddr*>(&at), &length), 0);
    number = ntohs(at.sin_port);
  }
  ~Port() { free(); }
  void free() {
    if (listening >= 0) close(listening);
    listening = -1;
  }
};

/// A process that runs `act`, and what it returns.
class Process {
 public:
  explicit Process(std::function<std::string()> const& act) {
    int ends[2] = {};
    EXPECT_EQ(pipe(ends), 0);
    // What is not written yet would be written twice.
    std::fflush(nullptr);
    process_ = fork();
    if (process_ == 0) {
      close(ends[0]);
      // Also of a program that takes this one's place.
      dup2(ends[1], STDOUT_FILENO);
      auto const said = act();
      (void)!write(ends[1], said.data(), said.size());
      _exit(0);
    }
    close(ends[1]);
    from_ = ends[0];
  }
  ~Process() {
    if (process_ > 0) kill(process_, SIGKILL), waitpid(process_, nullptr, 0);
    close(from_);
  }
  Process(Process const&) = delete;
  Process& operator=(Process const&) = delete;

  /// Waits for its end.
  std::string said() const {
    std::string all;
    char some[4096];
    for (ssize_t count = 0; (count = read(from_, some, sizeof some)) > 0;)
      all.append(some, static_cast<std::size_t>(count));
    return all;
  }
  void end_it() const { kill(process_, SIGKILL); }
  void stop_it() const { kill(process_, SIGSTOP); }
  long long number() const { return process_; }

 private:
  pid_t process_ = -1;
  int from_ = -1;
};

struct Rank {
  int rank = 0, size = 2;
  double deadline_s = k_patience_s;
  std::string version = "1";
};

inline Expected<std::shared_ptr<Meeting>> join(Rank const& one, int port) {
  return Meeting::join({one.rank, one.size, one.rank, "127.0.0.1", port}, {one.deadline_s, one.version});
}
inline std::string text_of(Expected<std::vector<std::string>> const& answer) {
  if (!answer) return to_text(answer.error());
  std::string text;
  for (auto const& one : *answer) text += one + ";";
  return text;
}
/// Meets, and then does `act`; what is said, or why they did not meet.
inline std::function<std::string()> meets(
    Rank const& one, int port, std::function<std::string(Meeting&)> act = [](Meeting&) { return "met"; }) {
  return [=] {
    auto met = join(one, port);
    return met ? act(**met) : to_text(met.error());
  };
}

}  // namespace tessera
