// SPDX-License-Identifier: Apache-2.0
#include "synchronization.hpp"

namespace tessera::gemm_sm90 {
namespace {

int tiles_along(int extent, int tile) { return (extent + tile - 1) / tile; }

}  // namespace

Synchronization synchronization_of(Call const& call) {
  Synchronization result;
  result.stage = call.stage;
  result.memory = call.memory;
  result.watch = call.watch;
  auto& stage = result.stage;
  stage.start = Start::block_index;
  // The warps that post do not know the epoch, which a store would need.
  stage.plain_store = false;
  auto const& a = stage.operand[0];
  bool const by_depth = a.has_set && call.producer.rows > 0;
  if (by_depth) {
    result.producer = call.producer;
    result.producer_rows = tiles_along(call.problem.rows, call.producer.rows);
    result.producer_columns = tiles_along(call.problem.depth, call.producer.columns);
  }
  bool const whole = !by_depth && (a.has_set || a.offsets != nullptr);
  result.whole = (whole ? 1u : 0u) | (stage.operand[1].produced ? 2u : 0u);
  // Launches before are waited for with b's first slices under way.
  bool const grid = a.waits_for_grid && !by_depth && !whole;
  result.by_depth = by_depth;
  result.waits_for_a = by_depth || grid;
  result.waits_whole = result.whole != 0 || stage.before_stores > 0 || stage.stores_after_grid;
  result.posts = stage.posts > 0;
  result.early_weights = stage.reorder_loads;
  result.triggers_late = stage.triggers_at_start && grid;
  result.triggers = stage.triggers_at_start && !result.triggers_late;
  return result;
}

bool can_synchronize(Call const& call) {
  auto const& stage = call.stage;
  auto const& a = stage.operand[0];
  bool waits = stage.before_stores > 0;
  for (auto const& operand : stage.operand) waits = waits || operand.has_set || operand.waits != nullptr;
  if ((waits || stage.posts > 0) && (call.memory.semaphores == nullptr || call.memory.counters == nullptr))
    return false;
  if (waits && (call.watch.record == nullptr || call.watch.nanoseconds == 0)) return false;
  if (!a.has_set) return true;
  if (call.producer.rows == 0) return a.offsets != nullptr;
  return call.producer.rows > 0 && call.producer.columns > 0;
}

}  // namespace tessera::gemm_sm90
