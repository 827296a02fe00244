// SPDX-License-Identifier: Apache-2.0
// Any loop that has a table, in persistent launches of one kernel.
#pragma once

#include <cstdint>
#include <memory>

#include "support/loop_table.hpp"
#include "tessera/run/run_loop.hpp"

namespace tessera::random_loop_tiles {

/// Device memory of one loop.
struct Device {
  loop_table::Table const* table = nullptr;
  std::uint64_t const* round = nullptr;  ///< tiles are late in one launch, other tiles in another one
  std::uint64_t* memory = nullptr;
  std::uint64_t* record = nullptr;
  unsigned* runs = nullptr;  ///< by tile of the record: how often it was computed
};

/// A chain of a plan whose stages are all the table's operation. Some tiles read late, some store late, by
/// up to 20 us.
class TableLoop {
 public:
  static Expected<TableLoop> make(LoopPlan plan, Device const& device, ChainOptions const& options);
  Expected<void> launch(GpuStream stream, long long iterations);
  Expected<void> finish();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tessera::random_loop_tiles
