// SPDX-License-Identifier: Apache-2.0
#include "companion.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "files/partial_files.hpp"

extern char** environ;

namespace tessera::cli {
namespace {

/// 0, or why it does not start. Ends this program, after the other, if that was told to end.
int await_end_of(char const* path, char* const* words, int& status) {
  files::ForwardedSignals forwarded;
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigmask(&attributes, &forwarded.mask());
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t child = 0;
  int const spawned = posix_spawn(&child, path, nullptr, &attributes, words, environ);
  posix_spawnattr_destroy(&attributes);
  if (spawned != 0) return spawned;
  forwarded.go_to(child);
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return 0;
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
  int status = 0;
  int const started = await_end_of(path.c_str(), pointers.data(), status);
  if (started != 0)
    return session.fail(complaint("E0936",
                                  fmt::format("{} does not start: {}", path.string(), std::strerror(started)),
                                  "see whether the libraries it needs are there: ldd " + path.string()));
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  int const signal = WTERMSIG(status);
  return session.fail(complaint(
      "E0936", fmt::format("{} was ended by signal {} ({})", path.string(), signal, strsignal(signal)),
      signal == SIGKILL ? "memory may have run out: see dmesg; try a smaller size"
                        : "what it wrote before says where; tessera doctor looks at the driver"));
}

}  // namespace tessera::cli
