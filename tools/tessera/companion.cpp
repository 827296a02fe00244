// SPDX-License-Identifier: Apache-2.0
#include "companion.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>

#include "files/partial_files.hpp"
#include "printed_diagnostics.hpp"
#include "tessera/report/report.hpp"

extern char** environ;

namespace tessera::cli {
namespace {

/// A pipe whose ends are closed with it.
class Pipe {
 public:
  Pipe() {
    if (pipe2(ends_, O_CLOEXEC) != 0) ends_[0] = ends_[1] = -1;
  }
  Pipe(Pipe const&) = delete;
  Pipe& operator=(Pipe const&) = delete;
  ~Pipe() {
    close(0);
    close(1);
  }
  void close(int end) {
    if (ends_[end] >= 0) ::close(ends_[end]);
    ends_[end] = -1;
  }
  int out() const { return ends_[0]; }
  int in() const { return ends_[1]; }

 private:
  int ends_[2];
};

bool has_ended(pid_t child, int& status, int options) {
  pid_t answer = 0;
  do answer = waitpid(child, &status, options);
  while (answer < 0 && errno == EINTR);
  return answer != 0;
}

/// Passes on what the child says on standard error, until it has ended, and returns the last of it. Others
/// that it started may hold the pipe open for longer.
std::string pass_on(int from, pid_t child, int& status) {
  constexpr std::size_t k_most = 1 << 16;
  constexpr int k_look_ms = 50;
  std::string said;
  for (bool ended = false;;) {
    pollfd waited{from, POLLIN, 0};
    int const ready = poll(&waited, 1, ended ? 0 : k_look_ms);
    char bytes[4096];
    auto const got = ready > 0 ? read(from, bytes, sizeof bytes) : -1;
    if (got > 0) {
      said.append(bytes, static_cast<std::size_t>(got));
      if (said.size() > 2 * k_most) said.erase(0, said.size() - k_most);
      std::fwrite(bytes, 1, static_cast<std::size_t>(got), stderr);
      continue;
    }
    if (ended) return said;
    ended = has_ended(child, status, got == 0 ? 0 : WNOHANG);
  }
}

struct Ended {
  int not_started = 0;  ///< why, as errno has it
  int status = 0;
  std::string said;  ///< on standard error, where that is kept
};

/// Ends this program, after the other, if that was told to end.
Ended await_end_of(char const* path, char* const* words, bool keeps_what_it_says) {
  Ended end;
  files::ForwardedSignals forwarded;
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigmask(&attributes, &forwarded.mask());
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  std::optional<Pipe> pipe;
  if (keeps_what_it_says) {
    pipe.emplace();
    if (pipe->in() >= 0) posix_spawn_file_actions_adddup2(&actions, pipe->in(), STDERR_FILENO);
  }
  pid_t child = 0;
  end.not_started = posix_spawn(&child, path, &actions, &attributes, words, environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (end.not_started != 0) return end;
  forwarded.go_to(child);
  if (pipe && pipe->out() >= 0) {
    pipe->close(1);
    end.said = pass_on(pipe->out(), child, end.status);
  } else {
    has_ended(child, end.status, 0);
  }
  return end;
}

/// Why an exit code is no answer of these programs: they have those of this one, and say why of all but "no",
/// which is their result. Empty: it is one.
std::string not_an_answer(int code, bool reasons_are_known, Diagnostics const& reasons) {
  if (code > k_internal) return fmt::format("ended with exit code {}, which it does not have", code);
  if (code > k_no && reasons_are_known && reasons.empty())
    return fmt::format("ended with exit code {} and said no reason", code);
  return {};
}

}  // namespace

int run_companion(Session const& session, std::string const& command, std::string const& name,
                  std::vector<std::string> const& arguments) {
  auto const path = std::filesystem::path(session.folder) / name;
  if (session.folder.empty() || access(path.c_str(), X_OK) != 0)
    return session.fail(complaint(
        "E0936",
        fmt::format("{} needs {}, which is not beside this program ({})", command, name, path.string()),
        fmt::format("build it where there is nvcc{}: cmake --build <build> --target {}",
                    name == "tessera-gpu" || name == "tessera-bench" ? ", with cuBLASLt and CUTLASS"
                    : name == "tessera-network"                      ? ", with cuDNN's headers"
                                                                     : "",
                    name)));
  std::vector<std::string> words{path.string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (auto& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  std::fflush(stdout);
  // A terminal is left to the program, which draws its progress there.
  bool const keeps = session.json || isatty(STDERR_FILENO) == 0;
  auto const [not_started, status, said] = await_end_of(path.c_str(), pointers.data(), keeps);
  if (not_started != 0)
    return session.fail(
        complaint("E0936", fmt::format("{} does not start: {}", path.string(), std::strerror(not_started)),
                  "see whether the libraries it needs are there: ldd " + path.string()));
  if (WIFEXITED(status)) {
    int const answer = WEXITSTATUS(status);
    // These programs say on standard error why not; here is the same for programs.
    auto const reasons = printed_diagnostics(said);
    if (auto const why = not_an_answer(answer, keeps, reasons); !why.empty())
      return session.fail(complaint(
          "E0936", fmt::format("{} {}", path.string(), why),
          fmt::format("what it wrote before says more; or a library is missing: ldd {}", path.string())));
    if (session.json && answer != k_ok && !reasons.empty()) session.print(print_diagnostics(reasons));
    return answer;
  }
  int const signal = WTERMSIG(status);
  return session.fail(complaint(
      "E0936", fmt::format("{} was ended by signal {} ({})", path.string(), signal, strsignal(signal)),
      signal == SIGKILL ? "memory may have run out: see dmesg; try a smaller size"
                        : "what it wrote before says where; tessera doctor looks at the driver"));
}

}  // namespace tessera::cli
