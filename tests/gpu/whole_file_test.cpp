// SPDX-License-Identifier: Apache-2.0
// How the programs of examples/05_existing_kernels write a record: whole, or not at all.
#include "whole_file.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <iterator>

namespace {

namespace fs = std::filesystem;

std::string text_of(fs::path const& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(WholeFile, ReplacesOrLeavesWhatWasThere) {
  auto const folder = fs::temp_directory_path() / ("tessera_whole_file_" + std::to_string(getpid()));
  fs::remove_all(folder);
  ASSERT_TRUE(fs::create_directory(folder));
  auto const record = folder / "record.json";
  EXPECT_TRUE(write_whole(record, "first\n"));
  EXPECT_TRUE(write_whole(record, "second\n"));
  EXPECT_EQ(text_of(record), "second\n");
  EXPECT_FALSE(write_whole(folder / "none" / "record.json", "third\n"));
  EXPECT_FALSE(write_whole(folder, "third\n"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1) << "nothing else is left";
  // A full disk is seen, and the device stays what it is.
  EXPECT_FALSE(write_whole("/dev/full", "fourth\n"));
  EXPECT_TRUE(write_whole("/dev/null", "fourth\n"));
  EXPECT_FALSE(fs::is_regular_file("/dev/null"));
  fs::remove_all(folder);
}

}  // namespace
