// SPDX-License-Identifier: Apache-2.0
// Loops in launches with roles: the tile functions of loop_tiles.hpp, and an operation that fills both rings.
#pragma once

#include <memory>

#include "run_gpu/loop_tiles.hpp"
#include "tessera/run/run_roles.hpp"

namespace tessera::role_tiles {

/// A LoopChain behind plain functions.
class RoleLoop {
 public:
  Expected<void> launch(GpuStream stream, long long iterations);
  Expected<void> finish();
  Expected<ChainGraph> capture(long long iterations);

  struct State;
  std::shared_ptr<State> state;
};

/// Tile 3 of iteration *stuck_at, in device memory, comes 0.4 s late; null: none does.
Expected<RoleLoop> stencil(LoopPlan const& plan, loop_tiles::Stencil const& data, int const* stuck_at,
                           RoleOptions const& options);
/// As loop_tiles::ManyStages.
Expected<RoleLoop> many_stages(LoopPlan const& plan, unsigned* values, RoleOptions const& options);
/// Writes which block computed a tile; tile 0 takes 5 ms.
Expected<RoleLoop> blocks_of_tiles(LoopPlan const& plan, int* blocks, RoleOptions const& options);
/// Three stages, of which only the first one does anything: its tile of iteration 20 takes 25 ms.
Expected<RoleLoop> one_slow_tile(LoopPlan const& plan, RoleOptions const& options);
/// One operation, however many the plan has.
Expected<RoleLoop> one_operation(LoopPlan const& plan, RoleOptions const& options);

constexpr int k_threads = 128;
constexpr int k_columns = 64;  ///< of a k-block: 128 bytes of 16-bit numbers
constexpr int k_tokens = 8;    ///< rows of a load of z
constexpr int k_copies = 3;

/// A loop of two stages over 16-bit numbers that wrap around. mix: y[t][i] = folded(sum over k of w[i][k] *
/// z[t][k] of the iteration before). reverse: z[t] is y[t], backwards within each tile of `rows`, times 3
/// plus 1. A tile is `rows` of y[t] for all t.
struct Mixing {
  void const* weight_map = nullptr;  ///< CUtensorMap of w, of all its copies one below the other
  void const* z_maps = nullptr;      ///< of each copy
  unsigned short* y[k_copies] = {};
  unsigned short* z[k_copies] = {};
  int w_copies = 1, y_copies = 1, z_copies = 2;
  int features = 0;                       ///< also the depth of the sum; a multiple of 64
  int tokens = 1;                         ///< 1 to 8
  int rows = 1;                           ///< of w in a tile; divides features
  int early_blocks = 1, late_blocks = 1;  ///< k-blocks to a slot; one divides the other
  int by_stores = 0;                      ///< the late ring is filled by four warps, and not by loads
  int unposted_tile = -1, unposted_iteration = -1;  ///< of mix
  int pad = 0;

  TESSERA_HOST_DEVICE constexpr int tiles() const { return features / rows; }
  TESSERA_HOST_DEVICE constexpr int blocks() const {
    int const whole = early_blocks > late_blocks ? early_blocks : late_blocks;
    return (features / k_columns + whole - 1) / whole * whole;
  }
  /// Bytes from one k-block of an early slot to the next.
  TESSERA_HOST_DEVICE constexpr int pitch() const { return (rows + 7) / 8 * 1024; }
};

TESSERA_HOST_DEVICE constexpr unsigned short folded(unsigned sum, long long iteration) {
  return static_cast<unsigned short>((sum ^ sum >> 16) + static_cast<unsigned>(iteration) * 77u);
}

/// `data`: in device memory.
Expected<RoleLoop> mixing(LoopPlan const& plan, Mixing const* data, RoleOptions const& options);

}  // namespace tessera::role_tiles
