// SPDX-License-Identifier: Apache-2.0
// tessera-network: the part of `tessera run resnet-50` that needs a GPU.
#include "arguments.hpp"
#include "tools/companion_program.hpp"

int main(int count, char** words) {
  using namespace tessera::command;
  return companion_main("tessera-network", count, words, read_network_run, [](NetworkRun const& run) {
    return run_network(run).map([](bool right) { return right ? 0 : k_answer_is_no; });
  });
}
