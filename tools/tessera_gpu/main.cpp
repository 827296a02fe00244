// SPDX-License-Identifier: Apache-2.0
// tessera-gpu: the part of the command line that launches kernels.
#include <cstdio>
#include <exception>

#include "arguments.hpp"
#include "files/partial_files.hpp"

int main(int count, char** words) {
  tessera::files::remove_partial_files_on_signals();
  try {
    using namespace tessera::command;
    auto const arguments = read_arguments({words + 1, words + count}, {"tune", "run"});
    if (!arguments) return fail(arguments.error());
    if (auto const fine = needs_hopper(); !fine) return fail(fine.error());
    return arguments->verb == "tune" ? tune(*arguments) : run(*arguments);
  } catch (std::exception const& error) {
    std::fprintf(stderr, "error: a defect of tessera-gpu: %s\n", error.what());
    return 4;
  }
}
