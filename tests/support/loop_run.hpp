// SPDX-License-Identifier: Apache-2.0
// One run of a loop on the host, tile by tile in whatever order, and whether it ended as it was meant.
#pragma once

#include <cstdint>
#include <string>

#include "support/loop_meaning.hpp"

namespace tessera::support {

/// Memory and record of a loop that runs for so many iterations. Tiles may be computed by several threads.
class LoopRun {
 public:
  LoopRun(Loop const& loop, int iterations) : LoopRun(loop_table::table_of(loop, iterations), iterations) {}
  LoopRun(loop_table::Table const& table, int iterations)
      : table_(table),
        memory_(loop_table::memory_before(table)),
        record_(loop_table::no_record(table, iterations)) {}

  void compute(int stage, long long iteration, std::int64_t tile) {
    loop_table::compute(table_, memory_.data(), record_.data(), stage, iteration, static_cast<int>(tile));
  }
  /// A tile of a stage of the loop written out.
  void compute_unrolled(std::size_t stage, std::int64_t tile) {
    auto const stages = static_cast<std::size_t>(table_.stages);
    compute(static_cast<int>(stage % stages), static_cast<long long>(stage / stages), tile);
  }

  /// As loop_table::wrong().
  std::string wrong(loop_table::Values const& meant) const {
    return loop_table::wrong(table_, memory_, record_, meant);
  }
  loop_table::Table const& table() const { return table_; }

 private:
  loop_table::Table table_;
  loop_table::Values memory_, record_;
};

}  // namespace tessera::support
