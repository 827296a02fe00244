// SPDX-License-Identifier: Apache-2.0
// tessera: the command line.
#include <filesystem>

#include "program.hpp"

int main(int count, char** words) {
  std::error_code error;
  auto const self = std::filesystem::read_symlink("/proc/self/exe", error);
  return tessera::cli::run_program(count, words, error ? "" : self.parent_path().string());
}
