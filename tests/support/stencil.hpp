// SPDX-License-Identifier: Apache-2.0
// A line of tiles, each of which reads itself and its two neighbours of the step before.
#pragma once

#include "support/plans.hpp"
#include "tessera/describe/loop.hpp"

namespace tessera::support {

inline Loop stencil(int columns) {
  Loop loop;
  loop.body.name = "stencil";
  loop.body.stages = {make_stage("step", columns, 1)};
  loop.body.stages[0].operands = {{"before", "step", 0, 0}};
  auto const x = TileExpr::dimension(0);
  Access const access{
      {{x + TileExpr::constant(-1), x + TileExpr::constant(2), true}, just(TileExpr::dimension(1))}};
  loop.carried = {{{0, 0, "before", {access}, OnComplete::release_waiters, {}, {}}, 1}};
  loop.copies = {{"step", 2}};
  return loop;
}

}  // namespace tessera::support
