// SPDX-License-Identifier: Apache-2.0
// Tile functions of loops: a stencil, and stages without number.
#pragma once

#include <memory>
#include <vector>

#include "tessera/run/run_loop.hpp"

namespace tessera::loop_tiles {

constexpr int k_width = 128;  ///< values of a tile

/// What a step makes of a value and its two neighbours.
TESSERA_HOST_DEVICE constexpr unsigned mixed(unsigned left, unsigned own, unsigned right) {
  return (left * 2654435761u ^ own) * 40503u + right * 97u + 1u;
}

/// A line of tiles in two copies; iteration n writes copy n modulo 2. One tile in `slow` comes 10 us late.
struct Stencil {
  unsigned* copies[2];
  int columns;
  int slow;
};

/// A chain that computes `iterations` steps in one launch.
class StencilLoop {
 public:
  static Expected<StencilLoop> make(LoopPlan const& plan, Stencil const& data, ChainOptions const& options);
  Expected<void> launch(GpuStream stream, long long iterations);
  Expected<void> finish();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// A body of many stages, three operations in turns: stage s of iteration n writes
/// 3 * (stage s - 1, or 0) + (1000 n + s) * (operation + 1) to its own row of tiles in `values`.
class ManyStages {
 public:
  static Expected<ManyStages> make(LoopPlan const& plan, unsigned* values, ChainOptions const& options);
  Expected<void> launch(GpuStream stream, long long iterations);
  Expected<void> finish();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tessera::loop_tiles
