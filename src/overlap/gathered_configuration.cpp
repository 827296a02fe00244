// SPDX-License-Identifier: Apache-2.0
// An all-gather before a GEMM: which panels of A come from where, and which tiles can start with them.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "tessera/describe/tile_relation.hpp"
#include "tessera/overlap/configure.hpp"

namespace tessera {
namespace {

tl::unexpected<Diagnostics> refused(SourceLine where, std::string message, std::string suggestion) {
  Diagnostic d;
  d.code = "E0540";
  d.where = std::move(where);
  d.message = std::move(message);
  d.suggestion = std::move(suggestion);
  return refuse(std::move(d));
}

/// The dependence of a GEMM on an all-gather, or null.
Dependence const* waiting_for_gather(Pipeline const& pipeline) {
  for (auto const& d : pipeline.dependences)
    if (d.on_complete == OnComplete::release_waiters &&
        pipeline.stages[static_cast<std::size_t>(d.producer)].kernel == "all_gather")
      return &d;
  return nullptr;
}

/// By panel, when it comes: panels of one number come together. On a ring a chunk comes after the other; on
/// fully connected GPUs the first panels of all of the others' chunks, then their second ones.
std::vector<std::int64_t> arrivals(OutputConfiguration const& panels, int gpus, Topology topology) {
  std::vector<std::int64_t> arrival(static_cast<std::size_t>(panels.tiles), 0);
  auto const together = topology == Topology::ring ? panels.produced : gpus - 1;
  for (auto i = panels.produced; i < panels.tiles; ++i)
    arrival[static_cast<std::size_t>(panels.order[static_cast<std::size_t>(i)])] =
        1 + (i - panels.produced) / together;
  return arrival;
}

}  // namespace

Expected<std::vector<GatheredInput>> configure_gathered(Pipeline const& pipeline, Topology topology,
                                                        Raster raster) {
  auto const* waiting = waiting_for_gather(pipeline);
  if (waiting == nullptr)
    return refused(pipeline.where, fmt::format("nothing in \"{}\" waits for an all_gather", pipeline.name),
                   "make the GEMM depend on the all_gather's chunks");
  auto const panels = configure(pipeline, topology, raster);
  if (!panels) return tl::make_unexpected(panels.error());
  auto const& gather = pipeline.stages[static_cast<std::size_t>(waiting->producer)];
  auto const& gemm = pipeline.stages[static_cast<std::size_t>(waiting->consumer)];
  auto const gpus = static_cast<int>(panels->size());
  auto const rows = panels->front().tiles;
  if (gather.tiles() != gpus || gemm.grid.size() != 2 || gemm.grid[1].extent != rows)
    return refused(waiting->where,
                   fmt::format("\"{}\" has no row of tiles for each of the {} panels that \"{}\" gathers",
                               gemm.name, rows, gather.name),
                   "a gathered GEMM has two dimensions, the second as many tiles as A has panels");
  // Chunk c is what GPU c has at first.
  std::vector<std::int32_t> chunk_of(static_cast<std::size_t>(rows), 0);
  for (auto const& own : *panels)
    for (std::int64_t i = 0; i < own.produced; ++i)
      chunk_of[static_cast<std::size_t>(own.order[static_cast<std::size_t>(i)])] = own.gpu;
  auto const columns = gemm.grid[0].extent;
  TileRelation const relation(pipeline, *waiting);
  std::vector<std::int64_t> read;
  for (std::int64_t tile = 0; tile < gemm.tiles(); ++tile) {
    read.clear();
    relation.producers_of(tile, read);
    auto const own = chunk_of[static_cast<std::size_t>(tile / columns)];
    if (read != std::vector<std::int64_t>{own})
      return refused(waiting->where,
                     fmt::format("{} waits for {} chunk{}, and its rows are in chunk {}",
                                 tile_name(gemm, tile), read.size(), read.size() == 1 ? "" : "s", own),
                     "let every tile wait for the one chunk that has its rows");
  }
  std::vector<GatheredInput> inputs;
  for (auto const& own : *panels) {
    auto const arrival = arrivals(own, gpus, topology);
    auto tiles = local_output(columns, rows, raster);
    tiles.gpu = own.gpu;
    std::stable_sort(tiles.order.begin(), tiles.order.end(), [&](std::int64_t a, std::int64_t b) {
      return arrival[static_cast<std::size_t>(a / columns)] < arrival[static_cast<std::size_t>(b / columns)];
    });
    inputs.push_back({own, std::move(tiles)});
    inputs.back().panels.chunk_of = chunk_of;
  }
  return inputs;
}

}  // namespace tessera
