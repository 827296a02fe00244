// SPDX-License-Identifier: Apache-2.0
// A plan: everything that code generator, runtime, simulator, interpreter and hang report need to
// agree on. Nobody re-derives a semaphore index from anything else.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "../describe/pipeline.hpp"
#include "../measure/machine_profile.hpp"
#include "../sync/chain_memory.cuh"
#include "../sync/policy.cuh"

namespace tessera {

/// When a launch may start, seen from the launches before it.
enum class LaunchStart {
  in_order,  ///< when everything before it is complete. Opens a group; the first launch of a plan does, too
  early,     ///< programmatic dependent launch: when every block of the launch before has started or left; as
             ///< the first of a plan: of whatever kernel was enqueued before the plan (chained launches)
  beside,    ///< in a stream of its own, when its group's first launch may; see Launch::wait_kernel
};

/// One kernel launch: one stage as a kernel of its own, or several stages in one persistent launch.
struct Launch {
  int first = 0;   ///< its stages are first, first + 1, ..., first + stages - 1
  int stages = 1;  ///< more than one only with `workers`
  LaunchStart start = LaunchStart::in_order;
  bool wait_kernel = false;  ///< beside: behind a one-thread kernel that waits for the first block of the
                             ///< launch before (cuSync, III-B)
  int workers =
      0;  ///< blocks of a persistent launch that draw tickets, all resident at once; 0: no such launch
  /// The workers' tickets in order: stage and position in that stage's order. Empty: stage by stage.
  struct Ticket {
    std::int32_t stage;
    std::int32_t position;
    bool operator==(Ticket const&) const = default;
  };
  std::vector<Ticket> tickets;

  int end() const { return first + stages; }
  bool holds(int stage) const { return first <= stage && stage < end(); }
  bool operator==(Launch const&) const = default;
};

/// Tiles column by column within bands of so many rows of tiles, cluster by cluster: the tiles of a cluster,
/// `cluster_rows` above each other and `cluster_columns` beside each other, have neighbouring positions.
struct Bands {
  int rows = 0;  ///< of tiles, rounded up to whole clusters; 0: all
  int cluster_rows = 1, cluster_columns = 1;

  bool operator==(Bands const&) const = default;
};

/// Position -> tile. Row major (empty table) or any permutation.
struct TileOrder {
  std::string name = "row major";
  std::vector<std::int32_t> table;            ///< table[position] = linear tile; empty: position itself
  std::optional<Bands> bands = std::nullopt;  ///< what the table lists; make_band_order() sets both

  std::int64_t tile_at(std::int64_t position) const {
    return table.empty() ? position : table[static_cast<std::size_t>(position)];
  }
  bool operator==(TileOrder const&) const = default;
};

/// The semaphores that a producer stage posts to under one policy. Several dependences may share a set.
struct SemaphoreSet {
  int producer = 0;
  PolicyMap map;
  std::string policy;      ///< "TileSync", "RowSync", "StridedSync", "Conv2DTileSync", "BatchedRowSync", ...
  std::int64_t first = 0;  ///< index of its first semaphore in the plan's array
  std::int64_t count = 0;
};

/// How a dependence is synchronized.
struct PlannedDependence {
  int dependence = 0;      ///< index into pipeline.dependences
  int semaphore_set = -1;  ///< index into Plan::semaphores; -1: the order of launches keeps it, see kept_by()
};

/// Every block of `writer` must also wait for all tiles of `reader` before it stores, because it
/// overwrites a buffer that `reader` used (BufferReuse). The set has one semaphore for the whole grid.
struct ReuseEdge {
  int writer = 0;
  int reader = 0;
  std::string buffer;
  int semaphore_set = -1;  ///< as PlannedDependence's

  bool operator==(ReuseEdge const&) const = default;
};

struct StagePlan {
  TileOrder order;
  bool custom_order = true;    ///< blocks draw tickets; false (T): the block's own index is its position
  bool reorder_loads = false;  ///< R: operands without a producer load before the wait
  bool plain_store = false;    ///< post by release store where a single post makes the value
  int persistent_blocks = 0;   ///< 0: a block for each tile; n: block i takes positions i, i + n, ...
  std::string variant = {};    ///< which of the kernel's own ways to compute its tiles, in the words of its
                               ///< binding (a library's algorithm); empty: the binding's first choice
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
  /// What the plan was proved and priced with: planning_values(). None: a plan of an older file.
  std::optional<MachineProfile> machine_values;
  std::vector<Launch> launches;   ///< every stage in exactly one, in the order of stages
  std::vector<StagePlan> stages;  ///< one per pipeline stage
  std::vector<SemaphoreSet> semaphores;
  std::vector<PlannedDependence> dependences;  ///< one per pipeline dependence
  std::vector<ReuseEdge> reuse_edges;

  std::string proof;  ///< why it cannot deadlock, with the numbers
  double predicted_us = 0;
  double stream_order_us = 0;  ///< best stream-order candidate, same machine
  std::string bound_by;        ///< "memory", "matrix units", "launch latency", "waiting"
  std::string why;             ///< the choice, in sentences
  std::vector<Alternative> alternatives;
};

/// Index of the launch that holds a stage. Precondition: one does.
int launch_of(Plan const& plan, int stage);

/// Launches that may run at the same time: one that starts in order, and all that follow it early or beside.
/// Between two groups everything is complete, so that nothing waits across.
struct LaunchGroup {
  int first = 0;  ///< launches
  int end = 0;
};
LaunchGroup group_of(Plan const& plan, int launch);
std::vector<LaunchGroup> groups_of(Plan const& plan);

/// Every launch in order, none persistent.
bool is_stream_order(Plan const& plan);

/// How a consumer's blocks know that a producer, or an earlier reader of a buffer, is far enough.
enum class KeptBy {
  completion,  ///< it is complete before any of them starts
  grid_wait,   ///< they wait until the launches before theirs are complete: pdl_wait()
  semaphores,  ///< they wait for tiles
  nothing,     ///< they cannot know: such a plan is refused
};
KeptBy kept_by(Plan const& plan, int consumer, int producer, int semaphore_set);
KeptBy kept_by(Plan const& plan, PlannedDependence const& planned);
KeptBy kept_by(Plan const& plan, ReuseEdge const& edge);

/// What a stage's kernel does beside computing tiles, from launches and edges.
struct StageDuties {
  Start start = Start::block_index;
  bool triggers = false;        ///< lets the next launch start early, at its own start
  bool waits_for_grid = false;  ///< some of its edges are kept by a grid_wait
  bool completes_after =
      false;  ///< started early: its blocks leave only when the launches before are complete
  bool announces_start = false;  ///< a wait kernel waits for its first block
  bool needs_epoch = false;      ///< it waits for semaphores or stores into them
};
StageDuties duties_of(Plan const& plan, int stage);

/// Names for plans whose launches are all alike: the mechanisms of the literature.
enum class Mechanism {
  stream_order,  ///< every launch in order
  pdl,           ///< early launches, no semaphores
  wait_kernel,   ///< launches beside each other, semaphores (cuSync)
  pdl_tiles,     ///< early launches, semaphores
  fused,         ///< one persistent launch, semaphores
};
char const* to_text(Mechanism mechanism);  ///< "stream order", "PDL", ...
/// True for the mechanisms that use tile semaphores.
bool uses_semaphores(Mechanism mechanism);
/// The launches of `stages` stages under one mechanism; `workers` for the fused one.
std::vector<Launch> launches_for(Mechanism mechanism, int stages, int workers = 0);
/// Of the launches [first, end) of a plan; nothing if they are not all alike. A single launch is in stream
/// order unless it has workers.
std::optional<Mechanism> mechanism_of(Plan const& plan, LaunchGroup const& launches);
std::optional<Mechanism> mechanism_of(Plan const& plan);
/// "PDL + tiles"; of a mixed plan its launches: "mixed: a > [b c] | d" (| in order, > early, & beside, [] one
/// launch).
std::string mechanism_text(Plan const& plan);

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
