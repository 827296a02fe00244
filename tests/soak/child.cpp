// SPDX-License-Identifier: Apache-2.0
#include "soak/child.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

namespace tessera::soak {

int status_of_child(std::string const& program, std::vector<std::string> const& arguments,
                    double most_seconds) {
  std::vector<char*> texts{const_cast<char*>(program.c_str())};
  for (auto const& argument : arguments) texts.push_back(const_cast<char*>(argument.c_str()));
  texts.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = -1;
  bool const begun = posix_spawn(&child, program.c_str(), &actions, nullptr, texts.data(), environ) == 0;
  posix_spawn_file_actions_destroy(&actions);
  if (!begun) return -1;
  auto const since = std::chrono::steady_clock::now();
  bool killed = false;
  for (;;) {
    int status = 0;
    auto const ended = waitpid(child, &status, WNOHANG);
    if (ended == child) return !killed && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (ended < 0) return -1;
    std::chrono::duration<double> const waited = std::chrono::steady_clock::now() - since;
    if (!killed && waited.count() > most_seconds) {
      killed = true;
      kill(child, SIGKILL);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

}  // namespace tessera::soak
