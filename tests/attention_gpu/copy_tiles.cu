// SPDX-License-Identifier: Apache-2.0
#include "attention_gpu/copy_tiles.hpp"

#include "tessera/run/run_tiles.hpp"

namespace tessera::attention_sm90 {
namespace {

struct CopyTile {
  static constexpr int threads = 256;
  Copy copy;

  __device__ void operator()(Tile tile, Context& context) const {
    int const number = static_cast<int>(linear_of(context.grid, tile));
    if (copy.lost != nullptr && *copy.lost == number) {
      context.stopped = true;
      return;
    }
    if (number % 3 == 0) {
      auto const since = GlobalTimer::now();
      while (GlobalTimer::now() - since < static_cast<unsigned long long>(copy.late_ns)) {
      }
    }
    int const last = min(copy.rows, (tile.at[1] + 1) * k_copied_rows);
    for (int row = tile.at[1] * k_copied_rows; row < last; ++row)
      for (int i = static_cast<int>(threadIdx.x); i < copy.columns; i += threads) {
        long long const at = 1LL * row * copy.width + tile.at[0] * copy.columns + i;
        copy.to[at] = copy.from[at];
      }
  }
};

}  // namespace

StageKernel copy_kernel(Plan const& plan, int stage, Copy const& copy) {
  return stage_kernel(plan, stage, CopyTile{copy});
}

}  // namespace tessera::attention_sm90
