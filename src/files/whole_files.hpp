// SPDX-License-Identifier: Apache-2.0
// Files that are whole or not there: how every program writes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/diagnostic.hpp"

namespace tessera::files {

struct WholeFile {
  std::string path;
  std::string_view text;
};

/// All or none: each is written beside its place, and renamed when all are whole; a signal comes before or
/// after that. A symbolic link stays, and the file that it leads to is new. Devices, pipes and standard
/// output ("-") are written through, before anything is renamed: where one is full the others are not there.
/// E0902 with the system's reason.
Expected<void> write_whole(std::vector<WholeFile> const& files);

/// E0902 if the path is a folder, or is in none.
Expected<void> check_place(std::string const& path);

/// Whether two paths lead to one file, also one that is not there yet.
bool is_same_file(std::string const& a, std::string const& b);

}  // namespace tessera::files
