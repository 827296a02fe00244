// SPDX-License-Identifier: Apache-2.0
#include "files/partial_files.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace tessera::files {
namespace {

// What a signal handler may touch: atomics without locks, and names that do not move. A command has seven
// outputs for each of a few sizes; what does not fit is still removed by its owner, only not by a signal.
constexpr std::size_t k_most_names = 256;
std::array<std::atomic<char*>, k_most_names> partial_names{};
std::atomic<bool> renaming{false};
std::atomic<char const*> last_words{nullptr};
std::atomic<int> postponed{0};
std::atomic<pid_t> companion{0};
constexpr std::array<int, 3> k_signals{SIGINT, SIGTERM, SIGHUP};

void end_by(int signal) {
  // What cannot be written is lost with the rest.
  if (auto const* const line = last_words.load()) [[maybe_unused]]
    auto const written = write(STDERR_FILENO, line, std::strlen(line));
  std::signal(signal, SIG_DFL);
  raise(signal);
}

void remove_all() {
  for (auto const& name : partial_names)
    if (auto const* text = name.load()) unlink(text);
  for (auto const& name : partial_names)  // folders, now that they are empty
    if (auto const* text = name.load()) rmdir(text);
}

void on_signal(int signal) {
  if (pid_t const process = companion.load(); process != 0) {
    kill(process, postponed.exchange(signal) == 0 ? signal : SIGKILL);
    return;
  }
  if (renaming.load()) {
    postponed.store(signal);
    return;
  }
  remove_all();
  end_by(signal);
}

/// What reads a pipe that is written to is gone.
void on_broken_pipe(int signal) {
  remove_all();
  end_by(signal);
}

void remember(char* name) {
  for (auto& place : partial_names) {
    char* free = nullptr;
    if (place.compare_exchange_strong(free, name)) return;
  }
}

void forget(char* name) {
  for (auto& place : partial_names) {
    char* expected = name;
    if (place.compare_exchange_strong(expected, nullptr)) return;
  }
}

}  // namespace

void remove_partial_files_on_signals() {
  std::signal(SIGXFSZ, SIG_IGN);
  if (std::signal(SIGPIPE, on_broken_pipe) == SIG_IGN) std::signal(SIGPIPE, SIG_IGN);
  for (int const signal : k_signals)
    // A signal that was to be ignored (nohup) stays so.
    if (std::signal(signal, on_signal) == SIG_IGN) std::signal(signal, SIG_IGN);
}

void LastWords::set(std::string const& line) {
  lines_.push_back('\n' + line + '\n');
  last_words.store(lines_.back().c_str());
}

LastWords::~LastWords() { last_words.store(nullptr); }

ForwardedSignals::ForwardedSignals() {
  sigset_t ours;
  sigemptyset(&ours);
  for (int const signal : k_signals) sigaddset(&ours, signal);
  sigprocmask(SIG_BLOCK, &ours, &before_);
}

void ForwardedSignals::go_to(pid_t process) {
  companion.store(process);
  sigprocmask(SIG_SETMASK, &before_, nullptr);
}

ForwardedSignals::~ForwardedSignals() {
  companion.store(0);
  sigprocmask(SIG_SETMASK, &before_, nullptr);
  int const signal = postponed.exchange(0);
  if (signal == 0) return;
  remove_all();
  end_by(signal);
}

Temporary::Temporary(std::string const& path) : path_(strdup(path.c_str())) { remember(path_); }

Temporary::Temporary(Temporary&& other) noexcept : path_(std::exchange(other.path_, nullptr)) {}

Temporary::~Temporary() {
  if (path_ == nullptr) return;
  std::remove(path_);
  forget(path_);
  std::free(path_);
}

PartialFile::PartialFile(std::string const& path)
    : path_(path), beside_(fmt::format("{}.{}.tmp", path, getpid())) {}

std::size_t rename_all(std::vector<PartialFile> const& files) {
  renaming.store(true);
  std::size_t done = 0;
  while (done < files.size() && std::rename(files[done].beside(), files[done].path().c_str()) == 0) ++done;
  int const reason = errno;
  renaming.store(false);
  if (int const signal = postponed.load(); signal != 0) end_by(signal);
  errno = reason;
  return done;
}

}  // namespace tessera::files
