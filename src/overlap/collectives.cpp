// SPDX-License-Identifier: Apache-2.0
// Collectives as configurations of output address spaces: who sends which chunk where, and when.
#include <fmt/format.h>

#include <algorithm>

#include "tessera/describe/tile_relation.hpp"
#include "tessera/overlap/configure.hpp"

namespace tessera {
namespace {

using Chunks = std::vector<std::vector<std::int64_t>>;

constexpr char const* k_code = "E0540";
constexpr std::int64_t k_band = 8;  // rows of a swizzled band, as CUTLASS's largest identity swizzle

tl::unexpected<Diagnostics> refused(SourceLine where, std::string message, std::string suggestion) {
  Diagnostic d;
  d.code = k_code;
  d.where = std::move(where);
  d.message = std::move(message);
  d.suggestion = std::move(suggestion);
  return refuse(std::move(d));
}

/// What all collectives share: a staggered order and chunks.
struct Frame {
  Chunks const& chunks;
  int gpus;
  std::int64_t tiles;
  std::int64_t chunk_tiles;

  std::vector<std::int64_t> const& chunk(int c) const {
    return chunks[static_cast<std::size_t>((c % gpus + gpus) % gpus)];
  }
  OutputConfiguration configuration(int gpu) const {
    OutputConfiguration out;
    out.gpu = gpu;
    out.tiles = out.produced = tiles;
    out.updates.assign(static_cast<std::size_t>(tiles), 1);
    return out;
  }
  void append(OutputConfiguration& out, int c) const {
    out.order.insert(out.order.end(), chunk(c).begin(), chunk(c).end());
  }
  void expect(OutputConfiguration& out, int c, int updates) const {
    for (auto const tile : chunk(c)) out.updates[static_cast<std::size_t>(tile)] = updates;
  }
  int peer(int gpu) const { return (gpu + gpus - 1) % gpus; }
};

/// Section 4.1: the first chunk goes to the neighbour as it is stored, the last one stays, those between are
/// copied on when the local and the neighbour's update have come.
OutputConfiguration ring_reduce_scatter(Frame const& frame, int gpu) {
  auto out = frame.configuration(gpu);
  out.local = MemoryOperation::update;
  for (int p = 0; p < frame.gpus; ++p) frame.append(out, gpu + p);
  out.remote_map(frame.chunk(gpu), frame.peer(gpu), MemoryOperation::update);
  frame.expect(out, gpu, 0);
  for (int p = 1; p < frame.gpus; ++p) frame.expect(out, gpu + p, 2);
  for (int p = 1; p + 1 < frame.gpus; ++p)
    out.dma_map(frame.chunk(gpu + p), frame.peer(gpu), MemoryOperation::update, 2);
  return out;
}

/// Section 7.1: every tile goes to the GPU that owns its chunk; all links are used from the first stage on.
OutputConfiguration direct(Frame const& frame, int gpu, MemoryOperation operation) {
  auto out = frame.configuration(gpu);
  out.local = operation;
  for (std::int64_t i = 0; i < frame.chunk_tiles; ++i)
    for (int p = 1; p <= frame.gpus; ++p)
      out.order.push_back(frame.chunk(gpu + p)[static_cast<std::size_t>(i)]);
  for (int p = 1; p < frame.gpus; ++p) {
    out.remote_map(frame.chunk(gpu + p), (gpu + p) % frame.gpus, operation);
    frame.expect(out, gpu + p, 0);
  }
  // An all-to-all's incoming chunks have buffers of their own; they are counted at the chunk that is kept.
  frame.expect(out, gpu, frame.gpus);
  return out;
}

/// A ring reduce-scatter whose last chunk, once reduced, is stored at the neighbour and from there on: every
/// chunk goes around twice, tile by tile.
OutputConfiguration ring_all_reduce(Frame const& frame, int gpu) {
  auto out = ring_reduce_scatter(frame, gpu);
  auto const last = frame.gpus - 1;
  out.dma_map(frame.chunk(gpu + last), frame.peer(gpu), MemoryOperation::store, 2);
  for (int p = 0; p < last; ++p) {
    frame.expect(out, gpu + p, p == 0 ? 1 : 3);
    if (p + 1 < last)
      out.dma_map(frame.chunk(gpu + p), frame.peer(gpu), MemoryOperation::store, 1, 1, p == 0 ? 0 : 1);
  }
  return out;
}

/// A direct reduce-scatter whose owner stores what is reduced at everyone.
OutputConfiguration direct_all_reduce(Frame const& frame, int gpu) {
  auto out = direct(frame, gpu, MemoryOperation::update);
  for (int p = 1; p < frame.gpus; ++p) {
    out.dma_map(frame.chunk(gpu), (gpu + p) % frame.gpus, MemoryOperation::store, frame.gpus);
    frame.expect(out, gpu + p, 1);
  }
  return out;
}

/// The same reduce-scatter of tiles that are computed in parts (section 7.7): a part that went to a peer as
/// it is stored would send every partial sum, so that those tiles are copied when all parts are in.
OutputConfiguration of_splits(OutputConfiguration out, int splits) {
  for (auto& map : out.dma) map.updates_per_element += splits - 1;
  for (auto& updates : out.updates) updates += updates > 0 ? splits - 1 : splits;
  for (auto& map : out.remote) out.dma_map(std::move(map.tiles), map.peer, map.operation, splits);
  out.remote.clear();
  return out;
}

OutputConfiguration all_gather(Frame const& frame, int gpu, Topology topology) {
  auto out = frame.configuration(gpu);
  out.produced = frame.chunk_tiles;
  frame.append(out, gpu);
  if (topology == Topology::fully_connected) {  // the others' chunks come side by side
    for (std::int64_t i = 0; i < frame.chunk_tiles; ++i)
      for (int p = 1; p < frame.gpus; ++p)
        out.order.push_back(frame.chunk(gpu + p)[static_cast<std::size_t>(i)]);
    for (int p = 1; p < frame.gpus; ++p)
      out.remote_map(frame.chunk(gpu), (gpu + p) % frame.gpus, MemoryOperation::store, true);
    return out;
  }
  for (int p = 1; p < frame.gpus; ++p) frame.append(out, gpu + p);
  out.remote_map(frame.chunk(gpu), frame.peer(gpu), MemoryOperation::store, true);
  for (int p = 1; p + 1 < frame.gpus; ++p)
    out.dma_map(frame.chunk(gpu + p), frame.peer(gpu), MemoryOperation::store, 1);
  return out;
}

}  // namespace

std::vector<std::int64_t> raster_order(std::int64_t columns, std::int64_t rows, Raster raster) {
  std::vector<std::int64_t> order;
  order.reserve(static_cast<std::size_t>(columns * rows));
  auto const band = raster == Raster::row ? 1 : raster == Raster::column ? rows : k_band;
  for (std::int64_t top = 0; top < rows; top += band)
    for (std::int64_t x = 0; x < columns; ++x)
      for (std::int64_t y = top; y < std::min(rows, top + band); ++y) order.push_back(y * columns + x);
  return order;
}

OutputConfiguration local_output(std::int64_t columns, std::int64_t rows, Raster raster) {
  OutputConfiguration out;
  out.tiles = out.produced = columns * rows;
  out.order = raster_order(columns, rows, raster);
  out.updates.assign(out.order.size(), 1);
  return out;
}

Expected<std::vector<OutputConfiguration>> configure(Pipeline const& pipeline, Topology topology,
                                                     Raster raster, int splits) {
  Dependence const* found = nullptr;
  for (auto const& dependence : pipeline.dependences)
    if (dependence.on_complete != OnComplete::release_waiters) {
      if (found)
        return refused(dependence.where, "a pipeline has one collective, and this is its second",
                       "configure the collectives one after the other");
      found = &dependence;
    }
  if (!found)
    return refused(pipeline.where, fmt::format("nothing in \"{}\" goes to a peer", pipeline.name),
                   "give the collective's dependence an on_complete action");
  auto const& consumer = pipeline.stages[static_cast<std::size_t>(found->consumer)];
  auto const& producer = pipeline.stages[static_cast<std::size_t>(found->producer)];
  bool const reduces = found->on_complete == OnComplete::reduce_into_peer;
  auto const& kind = consumer.kernel;
  if (reduces ? kind != "reduce_scatter" && kind != "all_reduce"
              : kind != "all_gather" && kind != "all_to_all")
    return refused(
        found->where,
        fmt::format("stage \"{}\" is {}, but its tiles are {}", consumer.name,
                    kind.empty() ? "no collective" : "\"" + kind + "\"",
                    reduces ? "reduced into a peer" : "copied to a peer"),
        "reduce_into_peer makes a reduce_scatter or all_reduce, start_peer_copy an all_gather or all_to_all");
  if (kind == "all_to_all" && topology == Topology::ring)
    return refused(found->where, "an all_to_all on a ring", "connect the GPUs fully");
  if (splits < 1 || (splits > 1 && kind != "reduce_scatter"))
    return refused(found->where, fmt::format("a depth in {} splits before \"{}\"", splits, kind),
                   "partial sums are added up on the way of a reduce_scatter; give other collectives one");
  auto const gpus = consumer.tiles();
  auto const tiles = producer.tiles();
  if (gpus < 2 || gpus > 1024)
    return refused(consumer.where, fmt::format("a collective of {} GPUs", gpus), "2 to 1024 GPUs");

  std::vector<std::int64_t> position(static_cast<std::size_t>(tiles), 0);
  auto const order = producer.grid.size() == 2
                         ? raster_order(producer.grid[0].extent, producer.grid[1].extent, raster)
                         : raster_order(tiles, 1, raster);
  if (static_cast<std::int64_t>(order.size()) != tiles)
    return refused(producer.where,
                   fmt::format("\"{}\" has {} dimensions", producer.name, producer.grid.size()),
                   "a producer of a collective has one dimension or two");
  for (std::size_t i = 0; i < order.size(); ++i)
    position[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);

  TileRelation const relation(pipeline, *found);
  Chunks chunks(static_cast<std::size_t>(gpus));
  std::vector<char> seen(static_cast<std::size_t>(tiles), 0);
  std::int64_t covered = 0;
  for (std::int64_t c = 0; c < gpus; ++c) {
    auto& chunk = chunks[static_cast<std::size_t>(c)];
    relation.producers_of(c, chunk);
    for (auto const tile : chunk) {
      if (seen[static_cast<std::size_t>(tile)]++ != 0)
        return refused(found->where, fmt::format("{} is in two chunks", tile_name(producer, tile)),
                       "chunks of a collective do not overlap");
      ++covered;
    }
    std::sort(chunk.begin(), chunk.end(), [&](std::int64_t a, std::int64_t b) {
      return position[static_cast<std::size_t>(a)] < position[static_cast<std::size_t>(b)];
    });
    if (chunk.size() != chunks.front().size())
      return refused(
          found->where,
          fmt::format("chunk {} has {} tiles and chunk 0 has {}", c, chunk.size(), chunks.front().size()),
          "make the number of tiles a multiple of the number of GPUs");
  }
  if (covered != tiles)
    return refused(found->where, fmt::format("{} of {} tiles are in a chunk", covered, tiles),
                   "every tile of the producer belongs to one chunk");

  Frame const frame{chunks, static_cast<int>(gpus), tiles, tiles / gpus};
  std::vector<OutputConfiguration> out;
  for (int gpu = 0; gpu < frame.gpus; ++gpu) {
    if (kind == "all_gather")
      out.push_back(all_gather(frame, gpu, topology));
    else if (kind == "all_reduce")
      out.push_back(topology == Topology::ring ? ring_all_reduce(frame, gpu) : direct_all_reduce(frame, gpu));
    else if (reduces && topology == Topology::ring)
      out.push_back(ring_reduce_scatter(frame, gpu));
    else
      out.push_back(direct(frame, gpu, reduces ? MemoryOperation::update : MemoryOperation::store));
    if (splits > 1) out.back() = of_splits(std::move(out.back()), splits);
  }
  return out;
}

}  // namespace tessera
