// SPDX-License-Identifier: Apache-2.0
// Files that are written under a name of their own until they are whole, and temporary ones: removed if the
// program ends or is ended (INT, TERM, HUP) before. Shared by all programs.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <deque>
#include <string>
#include <vector>

namespace tessera::files {

/// Once, before the first PartialFile. Afterwards the three signals remove what is half written, say the last
/// words that there are, and end the program as they always do (exit code 130 for INT in a shell); while
/// files are renamed, or another program runs (ForwardedSignals), they wait. A file that becomes larger than
/// a limit allows (XFSZ) is an error of writing and no end; a pipe that nobody reads (PIPE) is an end as
/// well.
void remove_partial_files_on_signals();

/// The three signals go to the process as long as this lives, and end this program after it: the process is
/// to be waited for. A second one kills the process. One at a time.
class ForwardedSignals {
 public:
  ForwardedSignals();  ///< signals wait until the process is known
  ForwardedSignals(ForwardedSignals const&) = delete;
  ForwardedSignals& operator=(ForwardedSignals const&) = delete;
  ~ForwardedSignals();
  void go_to(pid_t process);
  /// What the process should have blocked: what this one had.
  sigset_t const& mask() const { return before_; }

 private:
  sigset_t before_;
};

/// A file or an empty folder that is there at most as long as this is.
class Temporary {
 public:
  explicit Temporary(std::string const& path);
  Temporary(Temporary&& other) noexcept;
  Temporary(Temporary const&) = delete;
  Temporary& operator=(Temporary const&) = delete;
  Temporary& operator=(Temporary&&) = delete;
  ~Temporary();
  char const* path() const { return path_; }

 private:
  char* path_;
};

/// What a signal that ends the program says on standard error, a line, as long as this lives. One at a time.
class LastWords {
 public:
  LastWords() = default;
  LastWords(LastWords const&) = delete;
  LastWords& operator=(LastWords const&) = delete;
  ~LastWords();
  void set(std::string const& line);

 private:
  std::deque<std::string> lines_;  ///< all of them: a signal may come while the next one is set
};

/// The name beside `path` under which it is written; no file has it after this object's life.
class PartialFile {
 public:
  explicit PartialFile(std::string const& path);

  std::string const& path() const { return path_; }
  char const* beside() const { return beside_.path(); }

 private:
  std::string path_;
  Temporary beside_;
};

/// Gives all files their real names; none is missing when a signal comes in between. Returns the index of the
/// first that could not be renamed, with errno set, or the number of files.
std::size_t rename_all(std::vector<PartialFile> const& files);

}  // namespace tessera::files
