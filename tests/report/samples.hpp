// SPDX-License-Identifier: Apache-2.0
// A small plan and its timelines, made by hand: figure 1 of the cuSync paper. Two kernels of 3 x 2 tiles on
// 4 SMs, one block each, every block 1 us; a tile of the second needs its row of the first.
#pragma once

#include <array>

#include "tessera/plan/plan.hpp"
#include "tessera/timeline.hpp"

namespace tessera {

inline Stage sample_stage(std::string const& name) {
  Stage stage;
  stage.name = name;
  stage.grid = {{"x", 3}, {"y", 2}};
  stage.output = name;
  stage.kernel = "gemm_128x128x32";
  return stage;
}

inline Plan sample_plan() {
  Plan plan;
  plan.pipeline.name = "figure 1";
  plan.pipeline.stages = {sample_stage("gemm1"), sample_stage("gemm2")};
  plan.pipeline.stages[1].operands = {{"a", "gemm1", 1024, 4096}};
  Dependence edge;
  edge.consumer = 1;
  edge.producer = 0;
  edge.operand = "a";
  edge.accesses = {{{{TileExpr::constant(0), TileExpr::constant(3)},
                     {TileExpr::dimension(1), TileExpr::dimension(1) + TileExpr::constant(1)}}}};
  plan.pipeline.dependences = {edge};
  plan.machine = "four-sms";
  plan.launches = launches_for(Mechanism::wait_kernel, 2);
  plan.launches[1].wait_kernel = true;
  plan.stages.resize(2);
  plan.stages[0].waves = plan.stages[1].waves = 1.5;
  plan.stages[1].reorder_loads = true;
  SemaphoreSet rows;
  rows.map.dimension[0].grouping = Grouping::all;
  rows.policy = "RowSync";
  rows.count = 2;
  plan.semaphores = {rows};
  plan.dependences = {{0, 0}};
  plan.proof = "blocks of gemm1 are placed before blocks of gemm2, so gemm1 always finishes";
  plan.predicted_us = 3;
  plan.stream_order_us = 4;
  plan.bound_by = "matrix units";
  plan.why = "the last wave of gemm1 uses 2 of 4 SMs; row 0 is complete by then";
  plan.alternatives = {{"fused, RowSync", 0, "the machine holds 4 workers, and the plan needs none"},
                       {"stream order", 4, "4 waves instead of 3"},
                       {"wait kernel, TileSync", 3.1, "18 waits instead of 6"}};
  return plan;
}

/// One block of 1 us: set-up 0.1 us, then `waiting` ps, then work.
inline TileRecord sample_block(int stage, int tile, int sm, std::int64_t started, std::int64_t end,
                               std::int64_t waiting = 0) {
  TileRecord record;
  record.stage = stage;
  record.tile = tile;
  record.sm = sm;
  record.started = started;
  record.ready = started + 100'000 + waiting;
  record.loaded = end - 200'000;
  record.stored = end - 100'000;
  record.posted = end;
  record.waiting = waiting;
  return record;
}

inline Timeline sample_timeline(std::vector<std::array<std::int64_t, 4>> const& blocks, std::string mechanism,
                                std::int64_t end) {
  Timeline timeline;
  timeline.pipeline = "figure 1";
  timeline.machine = "four-sms";
  timeline.mechanism = std::move(mechanism);
  timeline.end = end;
  timeline.sms = 4;
  timeline.waves = static_cast<double>(end) / 1e6;
  timeline.busy = 12.0e6 / (4.0 * static_cast<double>(end));
  for (auto const* name : {"gemm1", "gemm2"}) timeline.stages.push_back({name, end, 0, 6, 1, {3, 2}});
  for (auto const& [stage, tile, sm, wave] : blocks) {
    timeline.tiles.push_back(sample_block(static_cast<int>(stage), static_cast<int>(tile),
                                          static_cast<int>(sm), wave * 1'000'000, (wave + 1) * 1'000'000));
    auto& span = timeline.stages[static_cast<std::size_t>(stage)];
    span.first_start = std::min(span.first_start, wave * 1'000'000);
    span.last_end = std::max(span.last_end, (wave + 1) * 1'000'000);
  }
  return timeline;
}

inline Timeline sample_stream_order() {
  return sample_timeline({{0, 0, 0, 0},
                          {0, 1, 1, 0},
                          {0, 2, 2, 0},
                          {0, 3, 3, 0},
                          {0, 4, 0, 1},
                          {0, 5, 1, 1},
                          {1, 0, 0, 2},
                          {1, 1, 1, 2},
                          {1, 2, 2, 2},
                          {1, 3, 3, 2},
                          {1, 4, 0, 3},
                          {1, 5, 1, 3}},
                         "stream order", 4'000'000);
}

/// The block at (SM 2, second wave) waits 0.3 us, so that pictures have a wait to show.
inline Timeline sample_tiles() {
  auto timeline = sample_timeline({{0, 0, 0, 0},
                                   {0, 1, 1, 0},
                                   {0, 2, 2, 0},
                                   {0, 3, 3, 0},
                                   {0, 4, 0, 1},
                                   {0, 5, 1, 1},
                                   {1, 0, 2, 1},
                                   {1, 1, 3, 1},
                                   {1, 2, 0, 2},
                                   {1, 3, 1, 2},
                                   {1, 4, 2, 2},
                                   {1, 5, 3, 2}},
                                  "wait kernel", 3'000'000);
  timeline.tiles[6] = sample_block(1, 0, 2, 1'000'000, 2'000'000, 300'000);
  return timeline;
}

}  // namespace tessera
