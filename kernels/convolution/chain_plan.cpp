// SPDX-License-Identifier: Apache-2.0
#include "kernels/convolution/chain_plan.hpp"

#include <fmt/format.h>

#include <tessera/describe/dsl.hpp>
#include <tessera/run/role_kernel.cuh>

namespace tessera::convolution {
namespace {

constexpr int k_shared_bytes = 227 * 1024;
constexpr int k_registers_per_sm = 65536;

/// What a block holds: one fits on an SM.
Resources block_resources() {
  int const threads = 32 * k_warps + 32 * detail::k_role_loader_warps;
  return {threads, k_registers_per_sm / threads / 8 * 8, k_shared_bytes};
}

/// Boxes of `edge` input pixels that box `box` of `box_edge` outputs reads, of `size` outputs and
/// `input_size` pixels: tiles_read() of stage.hpp as an expression.
Range boxes_read(Dim const& box, int box_edge, int size, int input_size, int edge, ConvStage const& s) {
  auto const first = max(box * (box_edge * s.stride) - s.padding, Dim(0));
  auto const last_output = min(box * box_edge + (box_edge - 1), Dim(size - 1));
  auto const last = min(last_output * s.stride + (s.kernel - 1 - s.padding), Dim(input_size - 1));
  return range(first / edge, last / edge + 1);
}

/// The tiles of stage `from` that a tile of `s` reads, every chunk of its channels.
TileRef read_of(StageHandle const& from, ConvStage const& s, std::array<Dim, 4> const& at) {
  auto const& [split, x, y, row] = at;
  auto const& p = s.producer;
  auto const image = y / s.tiles_y(), band = y % s.tiles_y();
  auto const bands = boxes_read(band, s.cut.box_height, s.height, s.input_height, p.box_height, s);
  auto const first = image * s.cut.box_images / p.box_images;
  auto const last = min(image * s.cut.box_images + (s.cut.box_images - 1), Dim(s.images - 1)) / p.box_images;
  int const share = s.chunks * k_chunk;
  return from(range(0, p.splits), boxes_read(x, s.cut.box_width, s.width, s.input_width, p.box_width, s),
              range(first * p.tiles_y + bands.begin, last * p.tiles_y + bands.end),
              range(split * share / p.rows, (split * share + (share - 1)) / p.rows + 1));
}

}  // namespace

Expected<LoopPlan> plan_chain(CutChain const& cut, MachineProfile const& machine, std::size_t first) {
  PipelineBuilder pipeline("convolutions");
  auto const dims = pipeline.dims("split", "x", "y", "row");
  auto const& [split, x, y, row] = dims;
  std::vector<StageHandle> stages;
  for (std::size_t l = 0; l < cut.stages.size(); ++l) {
    auto const& s = cut.stages[l];
    auto const buffer = fmt::format("x_{}", l + 1);
    auto stage = pipeline.stage(
        fmt::format("convolution_{}", first + l),
        {split = s.cut.splits, x = s.tiles_x(), y = s.tiles_y() * s.tiles_images(), row = s.tiles_rows()});
    stage.output(buffer).resources(block_resources());
    // A launch is one iteration, and launches follow each other: nothing is overwritten that is still read.
    pipeline.each_iteration(buffer);
    if (l > 0) pipeline.depends(stage(split, x, y, row), read_of(stages[l - 1], s, dims));
    stages.push_back(stage);
  }
  auto const loop = pipeline.build_loop();
  if (!loop) return tl::make_unexpected(loop.error());
  auto plan = plan_loop(*loop, machine, cut.workers);
  if (plan) plan->operations.assign(cut.stages.size(), 0);
  return plan;
}

}  // namespace tessera::convolution
