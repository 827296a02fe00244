// SPDX-License-Identifier: Apache-2.0
// A kernel author's translation unit: the device headers, C++17, nothing to link.
#include "tessera/sync.cuh"

int main() {
  tessera::TileGrid const grid{2, {6, 2, 1, 1}};
  tessera::RowSync const row;
  return row.count(grid) == 2 && row.tiles_of(grid, 0) == 6 ? 0 : 1;
}
