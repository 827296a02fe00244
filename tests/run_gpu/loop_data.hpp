// SPDX-License-Identifier: Apache-2.0
// Loops of loop_tiles.hpp, and what should come out.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "run_gpu/loop_tiles.hpp"
#include "support/plans.hpp"
#include "support/stencil.hpp"

namespace tessera::loop_tiles {

inline Loop stencil_loop(int columns, Resources const& resources) {
  auto loop = support::stencil(columns);
  loop.body.stages[0].resources = resources;
  return loop;
}

/// A step of the whole line.
inline std::vector<unsigned> stepped(std::vector<unsigned> const& from, int columns) {
  std::vector<unsigned> to(from.size());
  for (int x = 0; x < columns; ++x)
    for (int i = 0; i < k_width; ++i) {
      auto const at = [&](int column) {
        return from[static_cast<std::size_t>(std::clamp(column, 0, columns - 1) * k_width + i)];
      };
      to[static_cast<std::size_t>(x * k_width + i)] = mixed(at(x - 1), at(x), at(x + 1));
    }
  return to;
}

/// A body of so many stages of `columns` tiles, each of which reads the tile of the stage before; three
/// operations in turns.
inline Expected<LoopPlan> many_stages_plan(int stages, int columns, Resources const& resources,
                                           MachineProfile const& machine, int workers) {
  Loop loop;
  loop.body.name = "many";
  std::vector<int> operations;
  for (int s = 0; s < stages; ++s) {
    auto stage = support::make_stage("s" + std::to_string(s), columns, 1);
    stage.resources = resources;
    if (s > 0) {
      stage.operands = {{"a", "s" + std::to_string(s - 1), 0, 0}};
      loop.body.dependences.push_back(support::tile_dependence(s, s - 1));
    }
    loop.body.stages.push_back(std::move(stage));
    operations.push_back(s % 3);
  }
  auto plan = plan_loop(loop, machine, workers);
  if (plan) plan->operations = operations;
  return plan;
}

/// The values of all stages after so many iterations.
inline void expect_many_stages(std::vector<unsigned> const& found, int stages, int columns,
                               long long iterations) {
  unsigned value = 0;
  for (int s = 0; s < stages; ++s) {
    auto const n = static_cast<unsigned>(iterations - 1) * 1000u + static_cast<unsigned>(s);
    value = value * 3u + n * (static_cast<unsigned>(s % 3) + 1u);
    for (int i = 0; i < columns * k_width; ++i)
      ASSERT_EQ(found[static_cast<std::size_t>(s * columns * k_width + i)], value) << s << " " << i;
  }
}

}  // namespace tessera::loop_tiles
