// SPDX-License-Identifier: Apache-2.0
// tessera-decode: the part of `tessera run --decode` that needs a GPU.
#include "arguments.hpp"
#include "tools/companion_program.hpp"

int main(int count, char** words) {
  using namespace tessera::command;
  return companion_main("tessera-decode", count, words, read_decode_run,
                        [](DecodeRun const& run) { return run_decode(run).map([] { return 0; }); });
}
