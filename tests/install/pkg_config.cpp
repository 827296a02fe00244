// SPDX-License-Identifier: Apache-2.0
// Links the archives in the order that tessera.pc names them.
#include <cstdio>

#include "tessera/measure/machine_json.hpp"
#include "tessera/version.hpp"

int main() {
  auto const machine = tessera::machine("h200");
  if (!machine) {
    std::puts(to_text(machine.error()).c_str());
    return 1;
  }
  std::printf("tessera %s knows %s\n", tessera::k_version, machine->gpu.c_str());
}
