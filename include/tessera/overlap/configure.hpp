// SPDX-License-Identifier: Apache-2.0
// Where a GPU's output tiles go: the configuration of a producer's output address space (T3, section 4.4).
// It programs the Tracker and the copy commands ahead of time; the kernel's code does not change.
#pragma once

#include <cstdint>
#include <vector>

#include "../describe/pipeline.hpp"
#include "machine.hpp"

namespace tessera {

enum class MemoryOperation : std::uint8_t {
  store,
  update,  ///< added to what is there
};

/// The producer's stores to these tiles go to a peer's memory.
struct RemoteMap {
  std::vector<std::int64_t> tiles;
  int peer = 0;
  MemoryOperation operation = MemoryOperation::store;
  bool keep = false;  ///< also stored locally (all-gather)

  bool operator==(RemoteMap const&) const = default;
};

/// These tiles are copied from local memory to a peer's once every element of them has received its updates.
/// A tile's maps of phase 1 count the updates that come after those of phase 0, and so on (all-reduce: a tile
/// is sent on to be reduced, comes back reduced, and is sent on again).
struct DmaMap {
  std::vector<std::int64_t> tiles;
  int peer = 0;
  MemoryOperation operation = MemoryOperation::store;
  int updates_per_element = 1;
  int granularity = 1;  ///< wavefront tiles in one copy command
  int phase = 0;

  bool operator==(DmaMap const&) const = default;
};

/// One GPU's. Tiles that no map names are stored locally and stay.
struct OutputConfiguration {
  int gpu = 0;
  std::int64_t tiles = 0;           ///< of the output
  std::vector<std::int64_t> order;  ///< every tile, in the order in which this GPU has it: staggered
  std::int64_t produced = 0;        ///< the first so many of `order` it computes, the others only arrive
  std::vector<RemoteMap> remote;
  std::vector<DmaMap> dma;
  std::vector<int> updates;  ///< by tile: updates that each element of the local copy receives in all
  std::vector<std::int32_t> chunk_of;  ///< by tile, to name transfers in a recording; empty: all of chunk 0
  MemoryOperation local = MemoryOperation::store;  ///< how the producer's stores to local memory arrive

  void remote_map(std::vector<std::int64_t> region, int peer, MemoryOperation operation, bool keep = false) {
    remote.push_back({std::move(region), peer, operation, keep});
  }
  void dma_map(std::vector<std::int64_t> region, int peer, MemoryOperation operation, int updates_per_element,
               int granularity = 1, int phase = 0) {
    dma.push_back({std::move(region), peer, operation, updates_per_element, granularity, phase});
  }

  bool operator==(OutputConfiguration const&) const = default;
};

enum class Collective : std::uint8_t { reduce_scatter, all_gather, all_to_all, all_reduce };

/// Configurations of all GPUs for a pipeline's collective: a stage of as many tiles as there are GPUs, each a
/// chunk, whose kernel is "reduce_scatter", "all_gather" or "all_to_all". Its one dependence says which of
/// the producer's tiles a chunk consists of, and its on_complete action what happens when they are complete:
///
///   auto gemm = p.stage("gemm", {x = 34, y = 32});
///   auto scatter = p.stage("scatter", {chunk = 8}).kernel("reduce_scatter");
///   p.depends(scatter(chunk), gemm(all(x), range(chunk * 4, chunk * 4 + 4)))
///       .on_complete(OnComplete::reduce_into_peer);
///
/// GPU g has chunk g of an all-gather, and ends with chunk g - 1 of a reduce-scatter on a ring (it is the
/// last that it computes) or g of a direct one. With `splits` of k (section 7.7) every tile has so many local
/// updates, and is copied to the peer when all are in, that is once: what would be stored there at first,
/// too. Refused with E0540: chunks that overlap, leave tiles out or differ in size, actions that do not fit
/// the collective, and splits of a GEMM whose output is not reduce-scattered.
Expected<std::vector<OutputConfiguration>> configure(Pipeline const& pipeline, Topology topology,
                                                     Raster raster, int splits = 1);

/// One GPU's part of an all-gather whose result a GEMM reads (T3, section 7.2). A's rows are panels as high
/// as a tile; a tile of the GEMM is started when its panel has come.
struct GatheredInput {
  OutputConfiguration
      panels;  ///< the first `produced` of its order are the GPU's own, the others arrive in it
  OutputConfiguration tiles;  ///< the GEMM's, those first whose panels come first; all stay local
};

/// The same for an all-gather before a GEMM: a stage of A's panels, a stage of as many tiles as there are
/// GPUs whose kernel is "all_gather", and a GEMM of which every tile reads one chunk:
///
///   auto rows = p.stage("rows", {y = 32});
///   auto gather = p.stage("gather", {chunk = 8}).kernel("all_gather");
///   auto gemm = p.stage("gemm", {x = 12, y = 32});
///   p.depends(gather(chunk), rows(range(chunk * 4, chunk * 4 +
///   4))).on_complete(OnComplete::start_peer_copy); p.depends(gemm(x, y), gather(y / 4));
///
/// Refused with E0540: what configure() refuses of the all-gather, and tiles that do not read the chunk which
/// has their rows.
Expected<std::vector<GatheredInput>> configure_gathered(Pipeline const& pipeline, Topology topology,
                                                        Raster raster);

/// Every tile is computed and stored locally.
OutputConfiguration local_output(std::int64_t columns, std::int64_t rows, Raster raster);

/// Tiles of a grid in raster order.
std::vector<std::int64_t> raster_order(std::int64_t columns, std::int64_t rows, Raster raster);

}  // namespace tessera
