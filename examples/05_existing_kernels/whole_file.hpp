// SPDX-License-Identifier: Apache-2.0
// A record that is whole or as it was before, whatever ends the program meanwhile.
#pragma once

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

/// Written beside its place, then renamed. What is there and no file, such as a device, is written through.
/// false: the file could not be written.
inline bool write_whole(std::filesystem::path const& path, std::string const& text) {
  namespace fs = std::filesystem;
  std::error_code failed;
  bool const through = fs::exists(path, failed) && !fs::is_regular_file(path, failed);
  auto beside = path;
  if (!through) beside += ".partial";
  std::ofstream file(beside, std::ios::binary);
  file << text;
  file.close();
  bool whole = !file.fail();
  if (through) return whole;
  if (whole) fs::rename(beside, path, failed), whole = !failed;
  if (!whole) fs::remove(beside, failed);
  return whole;
}
