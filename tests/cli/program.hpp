// SPDX-License-Identifier: Apache-2.0
// Runs the built tessera as a user would and keeps what it said.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "report/golden.hpp"

namespace tessera {

/// A folder of its own for each test, gone afterwards.
class Folder {
 public:
  Folder() {
    auto pattern = (std::filesystem::temp_directory_path() / "tessera-cli-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(Folder const&) = delete;
  Folder& operator=(Folder const&) = delete;

  std::string path() const { return path_; }
  std::string operator/(std::string const& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

struct Said {
  int exit = -1;
  std::string out;
  std::string err;

  nlohmann::json json() const { return nlohmann::json::parse(out); }
};

/// `arguments` as in a shell; the current folder is `folder`.
inline Said tessera_says(std::string const& arguments, std::string const& folder) {
  Folder const outputs;
  auto const command = "cd '" + folder + "' && ('" TESSERA_BINARY "' " + arguments + ") >'" +
                       outputs / "out" + "' 2>'" + outputs / "err" + "' </dev/null";
  int const status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128, read_text(outputs / "out"),
          read_text(outputs / "err")};
}

/// Commands in a folder of their own.
struct CommandLine : testing::Test {
  Folder folder;

  Said run(std::string const& arguments) { return tessera_says(arguments, folder.path()); }
  Said good(std::string const& arguments) {
    auto said = run(arguments);
    EXPECT_EQ(said.exit, 0) << arguments << "\n" << said.err;
    return said;
  }
};

/// A quick plan to work on.
inline constexpr char const* k_small_plan =
    "plan llama-3.2-1b --tokens 64 --tp 8 --machine v100 --mechanism stream_order,wait_kernel";

}  // namespace tessera
