// SPDX-License-Identifier: Apache-2.0
// Hand-made pipelines to spoil.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tessera/check/check.hpp"

namespace tessera::small {

inline TileExpr number(std::int64_t n) { return TileExpr::constant(n); }
inline TileExpr const x = TileExpr::dimension(0);
inline TileExpr const y = TileExpr::dimension(1);

inline TileRange upto(TileExpr begin, TileExpr end, bool clamp = false) {
  return {std::move(begin), std::move(end), clamp};
}
inline TileRange one(TileExpr at) { return upto(at, at + number(1)); }

inline Stage stage(std::string name, std::int64_t columns, std::int64_t rows) {
  Stage result;
  result.name = name;
  result.grid = {{"x", columns}, {"y", rows}};
  result.output = name + "_out";
  return result;
}

/// Stage `consumer` reads `accesses` of `producer` through a new operand.
inline void depend(Pipeline& pipeline, int consumer, int producer, std::vector<Access> accesses, int line) {
  auto& stage = pipeline.stages[static_cast<std::size_t>(consumer)];
  auto const operand = "a" + std::to_string(stage.operands.size());
  stage.operands.push_back({operand, pipeline.stages[static_cast<std::size_t>(producer)].output, 0, 0});
  pipeline.dependences.push_back(
      {consumer, producer, operand, std::move(accesses), OnComplete::release_waiters, {"mlp.cpp", line}});
}

/// gemm1 24 x 4, gemm2 48 x 4; a tile of gemm2 reads a row of gemm1.
inline Pipeline mlp() {
  Pipeline pipeline;
  pipeline.name = "mlp";
  pipeline.where = {"mlp.cpp", 10};
  pipeline.stages = {stage("gemm1", 24, 4), stage("gemm2", 48, 4)};
  pipeline.stages[0].where = {"mlp.cpp", 11};
  pipeline.stages[1].where = {"mlp.cpp", 12};
  depend(pipeline, 1, 0, {{{upto(number(0), number(24)), one(y)}}}, 23);
  return pipeline;
}

/// The refusal as text, or the warnings of an accepted pipeline.
inline std::string findings(Pipeline const& pipeline) {
  auto const checked = check(pipeline);
  return checked ? to_text(checked->warnings()) : to_text(checked.error());
}

}  // namespace tessera::small
