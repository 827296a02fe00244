// SPDX-License-Identifier: Apache-2.0
// Compares text with a file of the tree, or writes the file when TESSERA_UPDATE_GOLDEN is set.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace tessera {

inline std::string read_text(std::string const& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// `path` is relative to the root of the tree.
inline void expect_golden(std::string const& text, std::string const& path) {
  auto const full = std::string(TESSERA_SOURCE_DIR) + "/" + path;
  if (std::getenv("TESSERA_UPDATE_GOLDEN")) {
    std::filesystem::create_directories(std::filesystem::path(full).parent_path());
    std::ofstream(full, std::ios::binary) << text;
  }
  EXPECT_EQ(text, read_text(full)) << "differs from " << path << "; TESSERA_UPDATE_GOLDEN=1 writes it anew";
}

}  // namespace tessera
