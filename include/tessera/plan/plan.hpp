// SPDX-License-Identifier: Apache-2.0
// A plan: everything that code generator, runtime, simulator, interpreter and hang report need to
// agree on. Nobody re-derives a semaphore index from anything else.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "../describe/pipeline.hpp"
#include "../sync/policy.cuh"

namespace tessera {

/// How the kernels of a chain are ordered.
enum class Mechanism {
  stream_order,  ///< one stream; a kernel starts when the one before it is complete
  pdl,           ///< one stream, programmatic dependent launch, grid-wide wait before the dependent operand
  wait_kernel,   ///< a stream per stage, tile semaphores, one-thread wait kernel (cuSync, III-B)
  pdl_tiles,     ///< one stream, PDL triggered at block start, tile semaphores instead of the grid-wide wait
  fused,         ///< one persistent launch over all tiles, tile semaphores
};
char const* to_text(Mechanism mechanism);  ///< "stream order", "PDL", ...
/// True for the mechanisms that use tile semaphores.
bool uses_semaphores(Mechanism mechanism);

/// Position -> tile. Row major (empty table) or any permutation.
struct TileOrder {
  std::string name = "row major";
  std::vector<std::int32_t> table;  ///< table[position] = linear tile; empty: position itself

  std::int64_t tile_at(std::int64_t position) const {
    return table.empty() ? position : table[static_cast<std::size_t>(position)];
  }
  bool operator==(TileOrder const&) const = default;
};

/// The semaphores that a producer stage posts to under one policy. Several dependences may share a set.
struct SemaphoreSet {
  int producer = 0;
  SemaphoreMap map;
  std::string policy;      ///< "TileSync", "RowSync", "StridedSync", "Conv2DTileSync", "BatchedRowSync", ...
  std::int64_t first = 0;  ///< index of its first semaphore in the plan's array
  std::int64_t count = 0;
};

/// How a dependence is synchronized.
struct PlannedDependence {
  int dependence = 0;      ///< index into pipeline.dependences
  int semaphore_set = -1;  ///< index into Plan::semaphores; -1: the mechanism alone orders it
};

/// Every block of `writer` must also wait for all tiles of `reader` before it stores, because it
/// overwrites a buffer that `reader` used (BufferReuse). The set has one semaphore for the whole grid.
struct ReuseEdge {
  int writer = 0;
  int reader = 0;
  std::string buffer;
  int semaphore_set = -1;  ///< -1: the mechanism alone orders it

  bool operator==(ReuseEdge const&) const = default;
};

struct StagePlan {
  TileOrder order;
  bool custom_order = true;    ///< blocks draw tickets; false (T): the block's own index is its position
  bool wait_kernel = false;    ///< wait_kernel mechanism: false for the first stage and under W
  bool reorder_loads = false;  ///< R: operands without a producer load before the wait
  bool plain_store = false;    ///< post by release store where a single post makes the value
  int persistent_blocks = 0;   ///< 0: a block for each tile; n: block i takes positions i, i + n, ...
  int occupancy = 1;           ///< blocks of this stage per SM
  double waves = 0;            ///< blocks / (occupancy * SMs)

  bool operator==(StagePlan const&) const = default;
};

/// An alternative that was priced or ruled out, and why it is not the plan.
struct Alternative {
  std::string description;  ///< "pdl_tiles, RowSync, 128x256 -> 128x256, +R"
  double predicted_us = 0;  ///< 0 if it was not priced
  std::string reason;       ///< a sentence with numbers

  bool operator==(Alternative const&) const = default;
};

struct Plan {
  Pipeline pipeline;
  std::string machine;  ///< MachineProfile::name
  Mechanism mechanism = Mechanism::stream_order;
  std::vector<StagePlan> stages;  ///< one per pipeline stage
  std::vector<SemaphoreSet> semaphores;
  std::vector<PlannedDependence> dependences;  ///< one per pipeline dependence
  std::vector<ReuseEdge> reuse_edges;
  int workers = 0;  ///< fused: blocks of the persistent launch, all resident at once
  /// fused: tickets in order. Each entry is stage and position in that stage's order. Empty: stage by stage.
  struct Ticket {
    std::int32_t stage;
    std::int32_t position;
    bool operator==(Ticket const&) const = default;
  };
  std::vector<Ticket> tickets;

  std::string proof;  ///< why it cannot deadlock, with the numbers
  double predicted_us = 0;
  double stream_order_us = 0;  ///< best stream-order candidate, same machine
  std::string bound_by;        ///< "memory", "matrix units", "launch latency", "waiting"
  std::string why;             ///< the choice, in sentences
  std::vector<Alternative> alternatives;
};

/// Ticket or block number -> what it computes. With a custom order the splits of a tile are
/// neighbours; without, the split index is slowest (CUDA's z).
struct BlockWork {
  std::int64_t tile;
  int split;
};
BlockWork block_work(Stage const& stage, StagePlan const& plan, std::int64_t block);

/// Semaphores (indices into the plan's whole array) that a consumer tile waits on for one dependence,
/// in the order of first need (ascending producer tile), no duplicates, and the count that means ready
/// in the first launch. Empty when the dependence has no semaphore set.
struct Awaited {
  std::int64_t semaphore;
  std::int64_t value;
};
std::vector<Awaited> awaited_by(Plan const& plan, int dependence, std::int64_t consumer_tile);

/// Semaphores that a tile of a stage posts to (once per split), one for each of its sets.
std::vector<std::int64_t> posted_by(Plan const& plan, int stage, std::int64_t tile);

}  // namespace tessera
