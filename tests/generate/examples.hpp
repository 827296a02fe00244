// SPDX-License-Identifier: Apache-2.0
// Small plans written by hand, one for each thing that a header can say.
#pragma once

#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "tessera/plan/plan.hpp"

namespace tessera::examples {

inline TileExpr dim(int index) { return TileExpr::dimension(index); }
inline TileExpr number(std::int64_t value) { return TileExpr::constant(value); }
inline TileRange one(TileExpr at) { return {at, at + number(1), false}; }

inline Stage stage(std::string name, std::vector<std::int64_t> extents, int splits, int line,
                   std::vector<std::string> operands) {
  Stage result;
  result.name = std::move(name);
  char const* const names[] = {"x", "y", "z", "w"};
  for (std::size_t d = 0; d < extents.size(); ++d) result.grid.push_back({names[d], extents[d]});
  result.splits = splits;
  result.output = result.name;
  result.where = {"example.cpp", line};
  for (auto& operand : operands) result.operands.push_back({operand, operand, 0, 0});
  return result;
}

inline SemaphoreMap map_of(DimensionMap x, DimensionMap y = {}, DimensionMap z = {}, DimensionMap w = {}) {
  return {{x, y, z, w}};
}
inline constexpr DimensionMap k_each{Grouping::each, 1};
inline constexpr DimensionMap k_all{Grouping::all, 1};

/// Adds a set behind those that are there; its index.
inline int add_set(Plan& plan, int producer, SemaphoreMap map, std::string policy) {
  SemaphoreSet set;
  set.producer = producer;
  set.map = map;
  set.policy = std::move(policy);
  for (auto const& other : plan.semaphores) set.first = std::max(set.first, other.first + other.count);
  set.count = map.count(plan.pipeline.stages.at(static_cast<std::size_t>(producer)).tile_grid());
  plan.semaphores.push_back(set);
  return static_cast<int>(plan.semaphores.size()) - 1;
}

inline void add_dependence(Plan& plan, int consumer, int producer, std::string operand,
                           std::vector<Access> accesses, int set) {
  auto const line = 20 + static_cast<int>(plan.pipeline.dependences.size());
  plan.pipeline.dependences.push_back({consumer,
                                       producer,
                                       std::move(operand),
                                       std::move(accesses),
                                       OnComplete::release_waiters,
                                       {"example.cpp", line}});
  plan.dependences.push_back({static_cast<int>(plan.dependences.size()), set});
}

/// Two GEMMs: 24 x 4 tiles with 2 splits, then 48 x 4; a row before a tile.
inline Plan mlp(std::string policy, Mechanism mechanism) {
  Plan plan;
  plan.pipeline.name = "gpt-3 mlp, " + policy;
  plan.pipeline.where = {"example.cpp", 9};
  plan.pipeline.stages = {stage("gemm1", {24, 4}, 2, 10, {"a", "b"}),
                          stage("gemm2", {48, 4}, 1, 11, {"a", "b"})};
  plan.machine = "v100";
  plan.launches = launches_for(mechanism, 2);
  plan.launches[1].wait_kernel = mechanism == Mechanism::wait_kernel;
  plan.stages.resize(2);
  plan.stages[1].reorder_loads = true;
  int set = -1;
  if (uses_semaphores(mechanism))
    set = add_set(plan, 0, policy == "TileSync" ? map_of(k_each) : map_of(k_all), policy);
  add_dependence(plan, 1, 0, "a", {{{{number(0), number(24), false}, one(dim(1))}}}, set);
  plan.predicted_us = 355.25;
  plan.stream_order_us = 378;
  plan.bound_by = "matrix units";
  plan.proof =
      "the wait kernel lets gemm2 start only after gemm1 has started, and blocks are placed in launch order";
  return plan;
}

/// Scores of a head wait for its query and key tiles of the fused QKV output, at distance 6; then softmax
/// over rows. Orders without row major.
inline Plan attention() {
  Plan plan;
  plan.pipeline.name = "attention";
  plan.pipeline.where = {"example.cpp", 9};
  plan.pipeline.stages = {stage("qkv", {18, 4}, 1, 10, {"x", "w"}),
                          stage("scores", {4, 6, 4}, 1, 11, {"q", "k"}),
                          stage("softmax", {6, 4}, 1, 12, {"s"})};
  plan.machine = "a100";
  plan.launches = launches_for(Mechanism::pdl_tiles, 3);
  plan.stages.resize(3);
  // Tiles of one head next to each other: (head, third, row).
  for (int row = 0; row < 4; ++row)
    for (int head = 0; head < 6; ++head)
      for (int third = 0; third < 3; ++third)
        plan.stages[0].order.table.push_back(row * 18 + third * 6 + head);
  plan.stages[0].order.name = "heads together";
  // No closed form: row major with the first and the last tile exchanged.
  plan.stages[2].order.table.resize(24);
  std::iota(plan.stages[2].order.table.begin(), plan.stages[2].order.table.end(), 0);
  std::swap(plan.stages[2].order.table.front(), plan.stages[2].order.table.back());
  plan.stages[2].order.name = "ends exchanged";
  int const strided = add_set(plan, 0, map_of({Grouping::stride, 6}), "StridedSync");
  int const rows = add_set(plan, 1, map_of(k_all), "RowSync");
  // scores(x = key tile, y = head, z = query row).
  add_dependence(plan, 1, 0, "q", {{{one(dim(1)), one(dim(2))}}}, strided);
  add_dependence(plan, 1, 0, "k", {{{one(dim(1) + number(6)), one(dim(0))}}}, strided);
  add_dependence(plan, 2, 1, "s", {{{{number(0), number(4), false}, one(dim(0)), one(dim(1))}}}, rows);
  return plan;
}

/// Two convolutions: the second reads pixel rows with a halo that is cut at the border, and writes
/// over the buffer that the first one reads. One post makes a value, so it can be a plain store; no tickets.
inline Plan convolution() {
  Plan plan;
  plan.pipeline.name = "3x3 convolutions";
  plan.pipeline.where = {"example.cpp", 9};
  plan.pipeline.stages = {stage("conv1", {2, 25}, 1, 10, {"image", "filter"}),
                          stage("conv2", {2, 25}, 1, 11, {"image", "filter"})};
  plan.machine = "v100";
  plan.launches = launches_for(Mechanism::wait_kernel, 2);
  plan.launches[1].wait_kernel = true;
  plan.stages.resize(2);
  for (auto& planned : plan.stages) {
    planned.custom_order = false;
    planned.plain_store = true;
  }
  int const tiles = add_set(plan, 0, map_of(k_each), "Conv2DTileSync");
  int const whole = add_set(plan, 0, map_of(k_all, k_all, k_all, k_all), "GridSync");
  TileExpr const first = floor_div(dim(1) * 2 - number(1), 2);
  TileExpr const last = minimum(dim(1) + number(2), maximum(number(25), modulo(dim(0), 2)));
  add_dependence(plan, 1, 0, "image", {{{{number(0), number(2), false}, {first, last, true}}}}, tiles);
  plan.reuse_edges.push_back({1, 0, "image", whole});
  return plan;
}

/// Gate and up halves side by side (two accesses), a product policy without a name, a persistent launch.
inline Plan fused(bool with_tickets) {
  Plan plan;
  plan.pipeline.name = with_tickets ? "fused swiglu" : "fused in order";
  plan.pipeline.where = {"example.cpp", 9};
  plan.pipeline.stages = {stage("gate_up", {8, 3}, 2, 10, {"a", "b"}),
                          stage("down", {5, 3}, 3, 11, {"a", "b"})};
  plan.machine = "h200";
  plan.launches = launches_for(Mechanism::fused, 2, 6);
  plan.stages.resize(2);
  // Columns first: a closed form.
  for (int x = 0; x < 8; ++x)
    for (int y = 0; y < 3; ++y) plan.stages[0].order.table.push_back(y * 8 + x);
  plan.stages[0].order.name = "column major";
  int const set = add_set(plan, 0, map_of({Grouping::block, 4}, {Grouping::block, 2}), "Block4 x Block2");
  auto const rows = one(dim(1));
  add_dependence(plan, 1, 0, "a",
                 {{{{number(0), number(4), false}, rows}}, {{{number(4), number(8), false}, rows}}}, set);
  if (with_tickets) {
    // Two rows of gate_up ahead, then in turns.
    auto& tickets = plan.launches.front().tickets;
    for (std::int32_t i = 0; i < 48 || i < 45; ++i) {
      if (i < 48) tickets.push_back({0, i});
      if (i >= 47)
        for (std::int32_t k = 0; k < 45; ++k) tickets.push_back({1, k});
    }
  }
  return plan;
}

/// Five stages under four mechanisms: a kernel; behind it, early, two stages in a persistent launch; in order
/// a kernel, and beside it one more behind a wait kernel. `mix` writes over what `embed` reads.
inline Plan mixed() {
  Plan plan;
  plan.pipeline.name = "mixed";
  plan.pipeline.where = {"example.cpp", 9};
  plan.pipeline.stages = {stage("embed", {4, 2}, 1, 10, {"x"}), stage("project", {4, 2}, 1, 11, {"a"}),
                          stage("mix", {3, 2}, 1, 12, {"a"}), stage("norm", {1, 2}, 1, 13, {"a"}),
                          stage("head", {6, 2}, 1, 14, {"a"})};
  plan.machine = "h200";
  plan.launches = {{0, 1, LaunchStart::in_order, false, 0, {}},
                   {1, 2, LaunchStart::early, false, 4, {}},
                   {3, 1, LaunchStart::in_order, false, 0, {}},
                   {4, 1, LaunchStart::beside, true, 0, {}}};
  plan.stages.resize(5);
  for (std::int32_t row = 0; row < 2; ++row) {
    for (std::int32_t x = 0; x < 4; ++x) plan.launches[1].tickets.push_back({1, row * 4 + x});
    for (std::int32_t x = 0; x < 3; ++x) plan.launches[1].tickets.push_back({2, row * 3 + x});
  }
  int const project = add_set(plan, 1, map_of(k_all), "RowSync");
  int const norm = add_set(plan, 3, map_of(k_each), "TileSync");
  auto const row_of = [](std::int64_t columns) {
    return std::vector<Access>{{{{number(0), number(columns), false}, one(dim(1))}}};
  };
  add_dependence(plan, 1, 0, "a", row_of(4), -1);
  add_dependence(plan, 2, 1, "a", row_of(4), project);
  add_dependence(plan, 3, 2, "a", row_of(3), -1);
  add_dependence(plan, 4, 3, "a", row_of(1), norm);
  plan.reuse_edges.push_back({2, 0, "x", -1});
  plan.reuse_edges.push_back({3, 0, "x", -1});
  return plan;
}

}  // namespace tessera::examples
