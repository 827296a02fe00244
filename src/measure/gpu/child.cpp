// SPDX-License-Identifier: Apache-2.0
#include "measure/gpu/methods/child.hpp"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>
#include <thread>

extern char** environ;

namespace tessera::probe {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Both ends of a pipe; closes what is still open.
struct Pipe {
  int ends[2] = {-1, -1};
  Pipe() {
    if (pipe(ends) != 0) throw std::runtime_error("cannot open a pipe to a child process");
  }
  ~Pipe() {
    for (int& end : ends) shut(end);
  }
  Pipe(Pipe const&) = delete;
  Pipe& operator=(Pipe const&) = delete;
  static void shut(int& end) {
    if (end >= 0) close(end);
    end = -1;
  }
};

/// Reads until the other end is closed; false: not before `end`.
bool read_until(int file, double end, std::string& to) {
  for (;;) {
    double const left = end - now();
    if (left <= 0) return false;
    pollfd waiting{file, POLLIN, 0};
    if (poll(&waiting, 1, static_cast<int>(left * 1e3) + 1) <= 0) continue;
    char bytes[4096];
    auto const count = read(file, bytes, sizeof bytes);
    if (count <= 0) return true;
    to.append(bytes, static_cast<std::size_t>(count));
  }
}

/// Has the process ended before `end`? Its status then.
bool ended(pid_t child, double end, int& status) {
  for (;;) {
    if (waitpid(child, &status, WNOHANG) == child) return true;
    if (now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

}  // namespace

ChildRun run_again(std::vector<std::string> const& words, double most_seconds, double most_seconds_to_end) {
  Pipe pipe;
  std::string const program = "/proc/self/exe";
  std::vector<std::string> copies = words;
  std::vector<char*> arguments{const_cast<char*>(program.c_str())};
  for (auto& word : copies) arguments.push_back(word.data());
  arguments.push_back(nullptr);

  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, pipe.ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addclose(&files, pipe.ends[0]);
  posix_spawn_file_actions_addclose(&files, pipe.ends[1]);
  pid_t child = 0;
  double const begin = now();
  int const failed = posix_spawn(&child, program.c_str(), &files, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (failed != 0) throw std::runtime_error("cannot start a child process");
  Pipe::shut(pipe.ends[1]);

  ChildRun run;
  int status = 0;
  bool over = read_until(pipe.ends[0], begin + most_seconds, run.output) &&
              ended(child, begin + most_seconds, status);
  run.seconds = now() - begin;
  if (!over) {
    run.killed = true;
    kill(child, SIGKILL);
    over = run.gone = ended(child, now() + most_seconds_to_end, status);
  }
  if (over && WIFEXITED(status)) run.exit_status = WEXITSTATUS(status);
  return run;
}

}  // namespace tessera::probe
