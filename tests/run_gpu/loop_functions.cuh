// SPDX-License-Identifier: Apache-2.0
// The tile functions behind loop_tiles.hpp, for files that nvcc compiles.
#pragma once

#include "run_gpu/loop_tiles.hpp"

namespace tessera::loop_tiles {

__device__ inline void delay(long long clocks) {
  long long const since = clock64();
  while (clock64() - since < clocks)
    ;
}

struct Step {
  static constexpr int threads = k_width;
  Stencil data;

  __device__ void operator()(Tile tile, Context& context) const {
    auto const* const from = data.copies[(context.iteration + 1) % 2];
    auto* const to = data.copies[context.iteration % 2];
    int const x = tile.at[0], last = data.columns - 1;
    if (data.slow > 0 && (7 * x + 3 * context.iteration) % data.slow == 0) delay(20000);
    auto const at = [&](int column) { return from[column * k_width + threadIdx.x]; };
    unsigned const left = at(x > 0 ? x - 1 : x), right = at(x < last ? x + 1 : x);
    to[x * k_width + threadIdx.x] = mixed(left, at(x), right);
  }
};

template <int Operation>
struct Add {
  static constexpr int threads = k_width;
  unsigned* values;
  int columns;

  __device__ void operator()(Tile tile, Context& context) const {
    auto const n = static_cast<unsigned>(context.iteration) * 1000u + static_cast<unsigned>(context.stage);
    auto* const own = values + (static_cast<long long>(context.stage) * columns + tile.at[0]) * k_width;
    unsigned const before =
        context.stage > 0 ? own[threadIdx.x - static_cast<long long>(columns) * k_width] : 0u;
    own[threadIdx.x] = before * 3u + n * (Operation + 1u);
  }
};

}  // namespace tessera::loop_tiles
