// SPDX-License-Identifier: Apache-2.0
// Plans of all kinds for an MLP.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "kernels/mlp/graph.hpp"
#include "tessera/run/device.hpp"
#include "tessera/shipped_kernels.hpp"
#include "tune/choices.hpp"

namespace tessera::mlp {

inline StageChoice by(char const* kernel, int band = -1, int blocks = 0) {
  auto const& entry = *shipped_kernels().find(kernel);
  StageChoice choice{{entry, entry.splits == k_any_splits ? 1 : entry.splits}, {}, ""};
  if (band >= 0) choice.how = {band, blocks};
  return choice;
}

/// The plan, if the kernels can compute the shape and the mechanism.
inline void add(std::vector<Plan>& plans, Shape const& shape, Choice const& choice,
                MachineProfile const& machine) {
  if (auto plan = plan_of(graph_of(shape), choice, machine)) plans.push_back(std::move(*plan));
}

/// A few of each kind: libraries, own kernels in every way to overlap them, one of each, one launch.
inline std::vector<Plan> some_plans(Shape const& shape) {
  auto const machine = with_device().value();
  std::vector<Plan> plans;
  add(plans, shape, {{by("cublaslt"), by("cublaslt")}}, machine);
  struct Tiles {
    char const* name;
    int band, blocks;
  };
  std::vector<Tiles> const tiles = {{"gemm_128x256x64_2x1", 1, machine.sms},
                                    {"gemm_128x128x64_2x1", 8, 0},
                                    {"gemm_128x176x64_2x1", 0, machine.sms},
                                    {"gemm_80x192x64_2x1_swapped", 1, 0},
                                    {"gemm_128x96x64_2x1", 4, machine.sms}};
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    auto const second = by(tiles[i].name, tiles[i].band, tiles[i].blocks);
    for (auto const mechanism : {Mechanism::stream_order, Mechanism::pdl})
      add(plans, shape, {{by("cublaslt"), second}, mechanism, 1, true, false}, machine);
    auto const& other = tiles[(2 * i + 1) % tiles.size()];
    auto const first = by(other.name, other.band, other.blocks);
    add(plans, shape, {{first, second}}, machine);
    for (bool const early : {true, false}) {
      add(plans, shape, {{first, second}, Mechanism::pdl, 1, early, early}, machine);
      for (int const columns : {1, k_whole_row, 3})
        add(plans, shape, {{first, second}, Mechanism::pdl_tiles, columns, early, early}, machine);
    }
  }
  if (shape.tokens <= 128)
    for (int tokens = 8; tokens <= 128; tokens *= 2) {
      if (tokens < shape.tokens) continue;
      auto const few = by(("few_tokens_" + std::to_string(tokens)).c_str());
      for (bool const chained : {false, true})
        add(plans, shape, {{few, few}, Mechanism::fused, 1, true, chained}, machine);
    }
  // Of each kind there is one, whatever some kernels cannot compute.
  for (auto const mechanism : {Mechanism::stream_order, Mechanism::pdl, Mechanism::pdl_tiles})
    EXPECT_TRUE(std::any_of(plans.begin(), plans.end(), [&](Plan const& plan) {
      return mechanism_of(plan) == mechanism;
    })) << to_text(mechanism);
  return plans;
}

}  // namespace tessera::mlp
