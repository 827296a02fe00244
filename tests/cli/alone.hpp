// SPDX-License-Identifier: Apache-2.0
// The tool without, or with stand-ins for, the programs that launch kernels.
#pragma once

#include <gmock/gmock.h>

#include <fstream>

#include "cli/program.hpp"

namespace tessera {

/// The tool alone in a folder of its own.
class AloneInAFolder : public testing::Test {
 protected:
  AloneInAFolder() { std::filesystem::copy_file(TESSERA_BINARY, folder / "tessera"); }

  Said says(std::string const& arguments) const {
    auto const command = "cd " + folder.path() + " && ./tessera " + arguments + " >out 2>err </dev/null";
    int const status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128, read_text(folder / "out"),
            read_text(folder / "err")};
  }
  void put_beside(std::string const& name, std::string const& script) const {
    std::ofstream(folder / name) << "#!/bin/sh\n" << script;
    std::filesystem::permissions(folder / name, std::filesystem::perms::owner_all);
  }
  Folder const folder;
};

}  // namespace tessera
