// SPDX-License-Identifier: Apache-2.0
// All cuts of a box into few blocks.
#pragma once

#include <algorithm>

#include "kernels/lattice_boltzmann/chip_block.hpp"
#include "kernels/lattice_boltzmann/problem.hpp"

namespace tessera::lattice_boltzmann {

/// Calls visit(cut) for every cut into at most `most` blocks.
template <class Visit>
void for_each_cut(Problem const& problem, int most, Visit const& visit) {
  ChipCut cut{{problem.width, problem.height, problem.depth}, {1, 1, 1}, {1, 1, 1}};
  for (int x = 1; x <= std::min(most, problem.width); ++x)
    for (int y = 1; x * y <= most && y <= problem.height; ++y)
      for (int z = 1; x * y * z <= most && z <= problem.depth; ++z) {
        cut.blocks[0] = x, cut.blocks[1] = y, cut.blocks[2] = z;
        visit(cut);
      }
}

}  // namespace tessera::lattice_boltzmann
