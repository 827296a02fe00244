// SPDX-License-Identifier: Apache-2.0
#include "simulate/cusync_steps.hpp"
#include "tessera/describe/workload.hpp"
#include "tessera/simulate/cusync_study.hpp"

namespace tessera {
namespace {

// Table V(b) of Jangda et al., A Framework for Fine-Grained Synchronization of Dependent GPU Kernels, CGO
// 2024. Splits, and times in stream order, are those of its artifact (github.com/microsoft/cusync,
// src/ml-bench/volta_conv2d: eval_resnet.py and resnet_results.csv).
struct PrintedRow {
  std::int64_t edge, channels, images;
  int splits;
  double stream_us;
  std::array<double, 4> steps_us;
};
constexpr PrintedRow k_rows[] = {{56, 64, 1, 2, 49.94, {50, 45, 41, 37}},
                                 {28, 128, 1, 2, 55.44, {60, 56, 50, 45}},
                                 {14, 256, 1, 4, 63.56, {65, 61, 56, 51}},
                                 {7, 512, 1, 8, 92.39, {100, 94, 89, 85}},
                                 {7, 512, 4, 4, 111.17, {135, 128, 120, 115}}};

/// The artifact's tile: 64 pixels by 64 channels, slices of 32, four warps, two slices in flight.
KernelEntry kernel() {
  KernelEntry entry;
  entry.name = "conv2d_64x64x32";
  entry.family = "published";
  entry.kind = OperatorKind::conv2d;
  entry.tile_m = entry.tile_n = 64;
  entry.tile_k = 32;
  entry.splits = k_any_splits;
  KernelForm form;
  form.types = {ElementType::fp16};
  form.epilogues = {Epilogue::none};
  form.resources = {128, 128, 16384};
  entry.forms = {form};
  return entry;
}

Expected<CheckedPipeline> two_convolutions(PrintedRow const& row) {
  OperatorGraph graph;
  graph.name = "two convolutions";
  graph.type = ElementType::fp16;
  graph.conv = {row.images, row.edge, row.edge, row.channels, 3, 3};
  for (std::string const name : {"conv1", "conv2"}) {
    Operator op;
    op.name = name;
    op.kind = OperatorKind::conv2d;
    op.m = row.images * row.edge * row.edge;
    op.n = row.channels;
    op.k = 9 * row.channels;
    auto const before = name == "conv1" ? std::string() : std::string("conv1");
    op.inputs = {{"a", before.empty() ? "x" : before, before, ReadPattern::conv_halo, {}},
                 {"b", "filters of " + name, "", ReadPattern::rows, {}}};
    graph.operators.push_back(std::move(op));
  }
  TileChoice const choice{kernel(), row.splits};
  auto const tiled = tile(graph, {choice, choice});
  if (!tiled) return tl::make_unexpected(tiled.error());
  return check(*tiled);
}

}  // namespace

Expected<std::vector<CusyncConvolution>> study_cusync_convolutions(MachineProfile const& machine) {
  std::vector<CusyncConvolution> result;
  for (auto const& printed : k_rows) {
    auto const checked = two_convolutions(printed);
    if (!checked) return tl::make_unexpected(checked.error());
    auto const stream = build_plan(*checked, machine, Recipe{});
    if (!stream) return tl::make_unexpected(stream.error());
    auto const in_order = simulated_us(*checked, machine, Recipe{});
    if (!in_order) return tl::make_unexpected(in_order.error());
    auto const& stage = stream->pipeline.stages.front();
    CusyncConvolution row{printed.channels,
                          printed.images,
                          {stage.grid[1].extent, stage.grid[0].extent, printed.splits},
                          stream->stages.front().waves,
                          *in_order,
                          {},
                          printed.stream_us,
                          printed.steps_us};
    for (int number = 0; number < 4; ++number) {
      auto const time = simulated_us(*checked, machine, cusync_step(number, {}));
      if (!time) return tl::make_unexpected(time.error());
      row.steps[static_cast<std::size_t>(number)] = *time;
    }
    result.push_back(row);
  }
  return result;
}

}  // namespace tessera
