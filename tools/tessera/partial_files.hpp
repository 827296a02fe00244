// SPDX-License-Identifier: Apache-2.0
// Files that are written under a name of their own until they are whole, and removed if the program ends or
// is ended (INT, TERM, HUP) before.
#pragma once

#include <deque>
#include <string>
#include <vector>

namespace tessera::cli {

/// Once, before the first PartialFile. Afterwards the three signals remove what is half written, say the last
/// words that there are, and end the program as they always do (exit code 130 for INT in a shell); while
/// files are renamed they wait.
void remove_partial_files_on_signals();

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
  PartialFile(PartialFile&& other) noexcept;
  PartialFile(PartialFile const&) = delete;
  PartialFile& operator=(PartialFile const&) = delete;
  PartialFile& operator=(PartialFile&&) = delete;
  ~PartialFile();

  std::string const& path() const { return path_; }
  char const* beside() const { return beside_; }

 private:
  std::string path_;
  char* beside_;
};

/// Gives all files their real names; none is missing when a signal comes in between. Returns the index of the
/// first that could not be renamed, with errno set, or the number of files.
std::size_t rename_all(std::vector<PartialFile> const& files);

}  // namespace tessera::cli
