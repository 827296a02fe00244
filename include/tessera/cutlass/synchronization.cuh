// SPDX-License-Identifier: Apache-2.0
// What a kernel of CUTLASS's is told of its plan, in its parameters: one value for the warp that waits, those
// that post and the kernel's end. Includes nothing of CUTLASS.
#pragma once

#include "../sync/persistent_stage.cuh"

namespace tessera::cutlass_sm90 {

/// Tiles of the stage that makes operand a, in elements; its columns are this product's depth.
struct ProducerTile {
  int rows = 0;
  int columns = 0;
};

/// In the order of use: what a block needs that has nothing to wait for comes first, because parameters are
/// fetched a line at a time, and each line is a miss at the start of a launch.
struct Synchronization {
  bool waits_for_a = false;  ///< before a tile's first load of it
  bool by_depth = false;     ///< as its depth gets ready, in tiles of `producer`; or for the launches before
  bool waits_whole = false;  ///< for `whole`, operands that are waited for as a whole, or before stores
  bool posts = false;
  bool early_weights = false;
  bool triggers = false;       ///< lets the next kernel start, at once
  bool triggers_late = false;  ///< or when those before are complete
  unsigned whole = 0;
  ProducerTile producer{1, 1};
  int producer_rows = 1, producer_columns = 1;  ///< of tiles
  LaunchedBlocks launched{1};                   ///< set it to the launch's number of blocks
  ChainMemory memory;
  RuntimeStage stage;
  DeadlineWatch<> watch;
};

/// One product as a stage of a plan: operand a of the stage is a[rows][depth], operand b is b. A default
/// stage neither waits nor posts.
struct SynchronizedProduct {
  int rows = 0, depth = 0;
  RuntimeStage stage;     ///< its grid is the output's tiles, columns first
  ChainMemory memory;     ///< needed with waits and posts
  DeadlineWatch<> watch;  ///< nanoseconds > 0 and a record: needed with waits
  /// a is loaded as its depth gets ready, in tiles of this size: as many as cover it have semaphores in
  /// operand a's set. 0: when all is there that a tile reads.
  ProducerTile producer;
};

/// All but `launched`. Blocks take tiles by their own numbers, whatever the stage's `start` says.
inline Synchronization synchronize(SynchronizedProduct const& product) {
  auto const tiles_along = [](int extent, int tile) { return (extent + tile - 1) / tile; };
  Synchronization result;
  result.stage = product.stage;
  result.memory = product.memory;
  result.watch = product.watch;
  auto& stage = result.stage;
  stage.start = Start::block_index;
  // The warps that post do not know the epoch, which a store would need.
  stage.plain_store = false;
  auto const& a = stage.operand[0];
  bool const by_depth = a.has_set && product.producer.rows > 0;
  if (by_depth) {
    result.producer = product.producer;
    result.producer_rows = tiles_along(product.rows, product.producer.rows);
    result.producer_columns = tiles_along(product.depth, product.producer.columns);
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

/// The memory and the watch are there, and what says when a can be loaded.
inline bool can_synchronize(SynchronizedProduct const& product) {
  auto const& stage = product.stage;
  auto const& a = stage.operand[0];
  bool waits = stage.before_stores > 0;
  for (auto const& operand : stage.operand) waits = waits || operand.has_set || operand.waits != nullptr;
  auto const& memory = product.memory;
  if ((waits || stage.posts > 0) && (memory.semaphores == nullptr || memory.counters == nullptr))
    return false;
  if (waits && (product.watch.record == nullptr || product.watch.nanoseconds == 0)) return false;
  if (!a.has_set) return true;
  if (product.producer.rows == 0) return a.offsets != nullptr;
  return product.producer.rows > 0 && product.producer.columns > 0;
}

}  // namespace tessera::cutlass_sm90
