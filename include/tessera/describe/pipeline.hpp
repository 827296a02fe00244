// SPDX-License-Identifier: Apache-2.0
// A pipeline: stages (kernels, each a grid of tiles) and tile dependences between them, as a plain
// value. Write one with the DSL (describe/dsl.hpp), load one (describe/workload_json.hpp), or
// let a model's operators be tiled (describe/workload.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "../diagnostic.hpp"
#include "../sync/tile.cuh"
#include "policy_map.hpp"
#include "tile_expr.hpp"

namespace tessera {

struct GridDim {
  std::string name;
  std::int64_t extent = 1;  ///< tiles along the dimension, >= 1

  bool operator==(GridDim const&) const = default;
};

/// What one thread block holds while it is resident. Decides occupancy.
struct Resources {
  int threads = 256;  ///< per block
  int registers_per_thread = 64;
  int shared_bytes = 0;  ///< static + dynamic, per block

  bool operator==(Resources const&) const = default;
};

/// How long a block of a stage was measured to take, from its start to its last store, on the machine that is
/// planned for. Both 0: not measured. Else it counts in place of what the stage says of its bytes and
/// operations. n blocks that share an SM take the longer of alone_ns and n times share_ns.
struct BlockTime {
  double alone_ns = 0;  ///< with an SM to itself
  double share_ns = 0;  ///< of the SM's time
  double waits_ns = 0;  ///< longer where it waits for tiles, beside what the machine's waits take: what the
                        ///< kernel's calls cost it

  bool known() const { return alone_ns > 0; }
  bool operator==(BlockTime const&) const = default;
};

/// What a stage's kernel can do beside computing its tiles. A plan that asks for more is refused. A kernel
/// that is not said to lack something can do it.
struct Abilities {
  bool wait = true;          ///< for tiles of a producer
  bool post = true;          ///< its own tiles
  bool run_beside = true;    ///< run in a stream of its own, and say when its first block has started
  bool start_early = true;   ///< be launched before the kernels before are complete (PDL), and wait for them
  bool persist = true;       ///< run with fewer blocks than tiles
  bool bands = true;         ///< process tiles column by column within bands of rows
  bool any_order = true;     ///< process tiles in the order of a table
  bool load_early = true;    ///< load operands without a producer before it waits
  bool fuse = true;          ///< be one of several stages of a persistent launch
  bool run_alone = true;     ///< be a launch by itself
  std::vector<int> heights;  ///< of its bands, in rows of tiles, as it is compiled for; empty: any

  bool operator==(Abilities const&) const = default;
};

/// A tensor that a stage reads. One whose buffer is another stage's output has a producer (through a
/// Dependence); every other one comes from outside (activations, weights).
struct Operand {
  std::string name;            ///< unique in the stage: "a", "b"
  std::string buffer;          ///< "x", "w1", or some stage's output buffer
  double bytes_per_block = 0;  ///< bytes that one block loads, through L2
  double unique_bytes = 0;     ///< distinct bytes over the whole grid
  int multicast = 1;           ///< blocks of a cluster that one read from L2 serves
  double full_bytes = 0;       ///< bytes_per_block of a tile that is cut off by no edge of the output, which
                               ///< are an average over the grid; 0: as many

  bool operator==(Operand const&) const = default;
};

/// One kernel of a chain. A block computes one split of one tile: blocks = tiles * splits; a tile is
/// complete when all of its splits have posted (split-K).
struct Stage {
  std::string name;           ///< unique in the pipeline, a C++ identifier
  std::vector<GridDim> grid;  ///< 1 to 4 dimensions, first fastest; x = columns, y = rows by custom
  int splits = 1;             ///< split-K factor, >= 1
  std::string output;         ///< buffer that the stage writes; the stage's name unless given
  std::vector<Operand> operands;
  std::string kernel;      ///< catalogue entry that the costs below come from, or empty
  std::string activation;  ///< in the epilogue: "gelu", "swiglu", "residual", or empty
  /// The last split of a tile to arrive stores it and posts for all of them, and the others do not post.
  bool last_split_posts = false;
  /// 0: a grid of blocks. Else the stage is one tile, a launch that spreads itself over the GPU and reaches
  /// this share of the machine's rates.
  double efficiency = 0;
  double fixed_ns = 0;  ///< such a stage takes this beside what its bytes and operations do
  Abilities can;        ///< its kernel
  /// Tiles of a cluster, above and beside each other; a grid that they do not divide runs blocks that pad.
  int cluster_rows = 1, cluster_columns = 1;
  Resources resources;
  double flops_per_block = 0;        ///< matrix-unit operations of one block
  double store_bytes_per_block = 0;  ///< bytes that one block writes
  int k_steps = 1;                   ///< main-loop slices of one block
  int pipeline_stages = 2;           ///< slices in flight in one block (CUTLASS "stages")
  BlockTime block_time;
  SourceLine where;

  std::int64_t tiles() const;
  std::int64_t blocks() const { return tiles() * splits; }
  TileGrid tile_grid() const;
  std::vector<std::string> dimension_names() const;

  bool operator==(Stage const&) const = default;
};

/// Half-open range [begin, end) of one producer coordinate, for a given consumer tile. With `clamp`
/// it is cut to the producer's grid (a convolution's halo); without, leaving the grid is an error (E0103).
struct TileRange {
  TileExpr begin;
  TileExpr end;
  bool clamp = false;

  bool operator==(TileRange const&) const = default;
};

/// A box of producer tiles: one range for each producer dimension.
struct Access {
  std::vector<TileRange> ranges;

  bool operator==(Access const&) const = default;
};

/// What happens when the producer tiles of a semaphore are complete.
enum class OnComplete {
  release_waiters,   ///< consumer tiles may start (cuSync)
  start_peer_copy,   ///< the tiles are copied to a peer GPU (T3 dma_map, store)
  reduce_into_peer,  ///< the tiles are added into a peer GPU's memory (T3 dma_map, update)
};

/// A tile of `consumer` reads the union of `accesses` of `producer`'s tiles through `operand`.
/// Stages are indices into Pipeline::stages.
struct Dependence {
  int consumer = 0;
  int producer = 0;
  std::string operand;
  std::vector<Access> accesses;
  OnComplete on_complete = OnComplete::release_waiters;
  SourceLine where;
  /// Which producer tiles share a semaphore; nothing: the planner's choice.
  std::optional<NamedPolicy> policy = {};

  bool operator==(Dependence const&) const = default;
};

/// What a buffer holds: matrices, row-major. The right-hand operand of a product is the transposed one: a row
/// for each column of the output.
struct Buffer {
  std::string name;
  std::int64_t rows = 1, columns = 1, batch = 1;
  std::string type;  ///< "bf16"

  bool operator==(Buffer const&) const = default;
};

/// Stages in launch order. A valid pipeline's dependences go from later stages to earlier ones;
/// check() decides.
struct Pipeline {
  std::string name;
  std::vector<Stage> stages;
  std::vector<Dependence> dependences;
  std::vector<Buffer> buffers;  ///< those whose size is known; each at most once
  SourceLine where;

  bool operator==(Pipeline const&) const = default;
};

/// Index of a stage by name, or -1.
int find_stage(Pipeline const& pipeline, std::string const& name);

/// "gemm2(3, 5)".
std::string tile_name(Stage const& stage, std::int64_t linear_tile);

}  // namespace tessera
