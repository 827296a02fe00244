// SPDX-License-Identifier: Apache-2.0
// What tests do to a flow's kernels: nothing may change by what is late, and a silent block must be named.
#pragma once

namespace tessera::lattice_boltzmann {

struct Disturbance {
  unsigned late = 0;  ///< not 0: warps sleep up to 4 us now and then, in all variants
  /// This block, or tile of `neighbours`, tells nobody anything from this step of a launch on. It means
  /// nothing to launches of a step, and to cooperative groups, whose barrier has no deadline.
  int silent_block = -1;
  unsigned silent_from = 0;
  /// On the chip: each step also ends with a plain barrier of the block, which orders nothing that was not in
  /// order. Racecheck loses the order at the reducing barrier that is there (docs/design/notes-overhead.md).
  bool plain_barrier = false;

  /// For a launch of a step: its own delays.
  constexpr unsigned late_in(long long step) const {
    return late == 0 ? 0 : late + 64u * (static_cast<unsigned>(step) & 0xFFFFFu);
  }
};

}  // namespace tessera::lattice_boltzmann
