// SPDX-License-Identifier: Apache-2.0
// The paper's dependences (section IV, figure 5) and a machine, built by hand.
#pragma once

#include "tessera/describe/pipeline.hpp"
#include "tessera/measure/machine_profile.hpp"

namespace tessera::examples {

inline Stage stage(std::string name, std::vector<GridDim> grid, int splits = 1) {
  Stage result;
  result.name = name;
  result.grid = std::move(grid);
  result.splits = splits;
  result.output = name;
  result.resources = {256, 128, 64 * 1024};
  result.operands = {{"a", "", 1 << 20, 1 << 20}, {"b", "w_" + name, 1 << 20, 16 << 20}};
  result.flops_per_block = 2.0 * 128 * 128 * 4096;
  result.store_bytes_per_block = 128 * 128 * 2;
  result.k_steps = 64;
  return result;
}

inline TileRange at(TileExpr expr) { return {expr, expr + TileExpr::constant(1)}; }
inline TileRange all(std::int64_t extent) { return {TileExpr::constant(0), TileExpr::constant(extent)}; }
inline TileExpr dim(int d) { return TileExpr::dimension(d); }

inline void depend(Pipeline& pipeline, int consumer, int producer, std::vector<Access> accesses,
                   std::string const& operand = "a") {
  auto& operands = pipeline.stages[static_cast<std::size_t>(consumer)].operands;
  auto const& buffer = pipeline.stages[static_cast<std::size_t>(producer)].output;
  bool found = false;
  for (auto& o : operands)
    if (o.name == operand) o.buffer = buffer, found = true;
  if (!found) operands.push_back({operand, buffer, 1 << 20, 1 << 20});
  pipeline.dependences.push_back({consumer, producer, operand, std::move(accesses), {}, {}});
}

/// Figure 5 (a): a tile of the second GeMM reads the whole row of the first.
inline Pipeline mlp(int columns1, int columns2, int rows, int splits1 = 1, int splits2 = 1) {
  Pipeline pipeline;
  pipeline.name = "mlp";
  pipeline.stages = {stage("gemm1", {{"x", columns1}, {"y", rows}}, splits1),
                     stage("gemm2", {{"x", columns2}, {"y", rows}}, splits2)};
  pipeline.stages[0].operands[0].buffer = "x";
  depend(pipeline, 1, 0, {{{all(columns1), at(dim(1))}}});
  return pipeline;
}

/// Figure 5 (b), its first dependence: P(x, y) reads XQ and XK, `columns` apart in the output of the QKV
/// GeMM.
inline Pipeline attention_scores(int columns, int rows) {
  Pipeline pipeline;
  pipeline.name = "attention";
  pipeline.stages = {stage("qkv", {{"x", 3 * columns}, {"y", rows}}),
                     stage("p", {{"x", columns}, {"y", rows}})};
  pipeline.stages[0].operands[0].buffer = "x";
  depend(pipeline, 1, 0,
         {{{at(dim(0)), at(dim(1))}}, {{at(dim(0) + TileExpr::constant(columns)), at(dim(1))}}});
  return pipeline;
}

/// Figure 5 (c): two 3x3 convolutions as implicit GeMMs.
inline Pipeline conv2d(int columns, int rows) {
  Pipeline pipeline;
  pipeline.name = "conv2d";
  pipeline.stages = {stage("conv1", {{"x", columns}, {"y", rows}}),
                     stage("conv2", {{"x", columns}, {"y", rows}})};
  pipeline.stages[0].operands[0].buffer = "images";
  depend(pipeline, 1, 0, {{{at(floor_div(dim(0), 9)), at(dim(1))}}});
  return pipeline;
}

/// A machine of round numbers: `sms` SMs, two blocks of the stages above on each.
inline MachineProfile machine_of(int sms) {
  MachineProfile m;
  m.name = "round";
  m.gpu = "round numbers";
  m.sms = sms;
  m.shared_bytes_per_sm = 160 * 1024;
  m.shared_bytes_per_block = 128 * 1024;
  m.clock_ghz = 1;
  m.matrix_flops_per_clock_per_sm = 1024;
  m.dram_gbps = 1000;
  m.l2_gbps = 4000;
  m.l2_mib = 40;
  m.sm_load_gbps = 60;
  m.dram_latency_ns = 500;
  m.launch_ns = 3000;
  m.stream_gap_ns = 1000;
  m.pdl_gap_ns = 500;
  m.pdl_grid_wait_ns = 500;
  m.stream_start_ns = 1500;
  m.block_start_ns = 500;
  m.ticket_ns = 200;
  m.post_ns = 500;
  m.store_post_ns = 300;
  m.wait_ns = 500;
  m.trigger_ns = 100;
  m.has_pdl = true;
  m.dispatches_in_launch_order = true;
  return m;
}

}  // namespace tessera::examples
