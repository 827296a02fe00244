// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "tessera/diagnostic.hpp"
#include "tessera/sync/tile.cuh"

int main() {
  tessera::Diagnostic const note{"E0000", tessera::Severity::warning, {}, "linked from a subdirectory", {},
                                 ""};
  std::puts(to_text(note).c_str());
  return tessera::TileGrid{}.tiles() == 1 ? 0 : 1;
}
