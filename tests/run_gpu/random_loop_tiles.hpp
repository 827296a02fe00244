// SPDX-License-Identifier: Apache-2.0
// Any loop that has a table, in persistent launches of one kernel, with roles and without.
#pragma once

#include <cstdint>
#include <memory>

#include "run_gpu/held_tile.cuh"
#include "support/loop_table.hpp"
#include "tessera/run/run_roles.hpp"

namespace tessera::random_loop_tiles {

/// Device memory of one loop.
struct Device {
  loop_table::Table const* table = nullptr;
  std::uint64_t const* round = nullptr;  ///< tiles are late in one launch, other tiles in another one
  std::uint64_t* memory = nullptr;
  std::uint64_t* record = nullptr;
  unsigned* runs = nullptr;        ///< by tile of the record: how often it was computed
  HeldTile const* held = nullptr;  ///< by tile of the record; may be left out
};

/// A LoopChain behind plain functions.
class TableLoop {
 public:
  Expected<void> launch(GpuStream stream, long long iterations);
  Expected<void> finish();

  struct State;
  std::shared_ptr<State> state;
};

/// A chain of a plan whose stages are all the table's operation. Some tiles read late, some store late, by
/// up to 20 us.
Expected<TableLoop> table_loop(LoopPlan plan, Device const& device, ChainOptions const& options);
/// The same in a launch with roles.
Expected<TableLoop> table_loop(LoopPlan plan, Device const& device, RoleOptions const& options);

}  // namespace tessera::random_loop_tiles
