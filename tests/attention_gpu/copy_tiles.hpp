// SPDX-License-Identifier: Apache-2.0
// A stage before attention and one behind it: tiles of 128 rows and so many columns of a matrix that are
// copied, some of them late, one not at all.
#pragma once

#include <cstdint>

#include "tessera/run/chain.hpp"

namespace tessera::attention_sm90 {

constexpr int k_copied_rows = 128;

/// From one matrix to another of the same size. Tile (x, y) of the stage: columns from columns * x, rows from
/// 128 * y that there are.
struct Copy {
  std::uint16_t const* from = nullptr;
  std::uint16_t* to = nullptr;
  int width = 0, rows = 0, columns = 0;
  int late_ns = 0;            ///< every third tile
  int const* lost = nullptr;  ///< device memory: a tile that is neither copied nor posted; null: none
};

StageKernel copy_kernel(Plan const& plan, int stage, Copy const& copy);

}  // namespace tessera::attention_sm90
