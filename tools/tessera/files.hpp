// SPDX-License-Identifier: Apache-2.0
// The only place of the tool that touches files.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "session.hpp"
#include "tessera/diagnostic.hpp"

namespace tessera::cli {

/// Begins a command: no file has been read yet.
void forget_what_was_read();

/// The file's bytes; "-" is standard input. E0901 with the system's reason, and with a name that is nearly
/// the same where the folder has one.
Expected<std::string> read_file(std::string const& path);

/// The same, but none where there is no such file; a command may write over it.
Expected<std::optional<std::string>> read_if_there(std::string const& path);

/// Whole or not at all: written beside and renamed, also when a signal comes. "-" is standard output. A
/// symbolic link stays, and the file that it leads to is written. E0902 with the system's reason. E0912 for a
/// file that read_file() gave: what was read is never replaced.
Expected<void> write_file(std::string const& path, std::string_view text);

struct OutputFile {
  std::string path;
  std::string text;
};

/// What would stop outputs from being written, found before anything is computed: two of them in one place by
/// whatever paths, one that was read (E0912), one that is a folder or in none (E0902). An empty path is no
/// output.
Expected<void> check_outputs(std::vector<std::string> const& paths);

/// Writes all or none (devices, pipes and standard output come last), and says so. check_outputs() comes
/// before anything is written.
Expected<void> write_files(Session const& session, std::vector<OutputFile> const& files);

/// Does one of them go to standard output, which must then hold nothing else?
bool fill_standard_output(std::vector<OutputFile> const& files);

/// E0902 for what cannot have a file beside it for each size: a folder, a device.
Expected<void> check_for_sizes(std::string const& path);

/// "out/plan.json", "64" -> "out/plan-64.json".
std::string with_size(std::string const& path, std::string const& size);

}  // namespace tessera::cli
