// SPDX-License-Identifier: Apache-2.0
// Random small pipelines for property tests: affine dependences with div, mod, min, max, clamped
// ranges and several accesses; several producers; split-K; buffers used twice.
#pragma once

#include <rapidcheck.h>

#include <algorithm>
#include <cstddef>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "tessera/describe/pipeline.hpp"

namespace tessera {

/// One line per stage and dependence, for a failing property's report.
inline void showValue(Pipeline const& pipeline, std::ostream& out) {
  out << "pipeline " << pipeline.name << '\n';
  for (auto const& stage : pipeline.stages) {
    out << "  " << stage.name << " grid";
    for (auto const& dim : stage.grid) out << ' ' << dim.name << '=' << dim.extent;
    out << " splits=" << stage.splits << " writes " << stage.output << '\n';
  }
  for (auto const& dependence : pipeline.dependences) {
    auto const& consumer = pipeline.stages.at(static_cast<std::size_t>(dependence.consumer));
    auto const names = consumer.dimension_names();
    out << "  " << consumer.name << '.' << dependence.operand << " <- "
        << pipeline.stages.at(static_cast<std::size_t>(dependence.producer)).name;
    for (auto const& access : dependence.accesses) {
      out << " {";
      for (auto const& range : access.ranges)
        out << " [" << to_text(range.begin, names) << ", " << to_text(range.end, names) << ')'
            << (range.clamp ? "clamped" : "");
      out << " }";
    }
    out << '\n';
  }
}

}  // namespace tessera

namespace tessera::random {

struct Options {
  int min_stages = 2;
  int max_stages = 4;
  int max_rank = 3;
  int max_extent = 6;     ///< tiles along one dimension
  int max_accesses = 3;   ///< boxes in one dependence
  int max_producers = 2;  ///< dependences of one stage
  int max_splits = 3;
  bool valid = true;           ///< every producer tile that is read exists; false: ranges may leave the grid
  bool reuse_buffers = false;  ///< some stages overwrite an earlier stage's buffer
  int max_tiles = 1000;        ///< per stage; grids above lose dimensions
};

/// A value in [low, high], both included, uniform whatever RapidCheck's size. Call inside rc::gen::exec only.
inline int pick(int low, int high) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(low, high + 1));
}
inline bool chance(int percent) { return pick(1, 100) > 100 - percent; }  // shrinks to false

/// Any expression over `rank` consumer dimensions; values stay small.
inline TileExpr expression(int rank, int depth) {
  if (depth == 0 || chance(30))
    return chance(60) ? TileExpr::dimension(pick(0, rank - 1)) : TileExpr::constant(pick(-3, 6));
  auto const below = [&] { return expression(rank, depth - 1); };
  switch (pick(0, 6)) {
    case 0: return below() + below();
    case 1: return below() - below();
    case 2: return below() * pick(-2, 3);
    case 3: return floor_div(below(), pick(2, 4));
    case 4: return modulo(below(), pick(2, 5));
    case 5: return minimum(below(), below());
    default: return maximum(below(), below());
  }
}

/// An expression whose values lie in [0, extent).
inline TileExpr inside(int rank, int extent) {
  auto any = expression(rank, 2);
  if (chance(40)) return modulo(std::move(any), extent);
  return minimum(maximum(std::move(any), TileExpr::constant(0)), TileExpr::constant(extent - 1));
}

/// `empty`: it may be for some or all consumer tiles.
inline TileRange range(int rank, int extent, bool valid, bool empty) {
  auto const zero = TileExpr::constant(0);
  auto const one = TileExpr::constant(1);
  auto const end = TileExpr::constant(extent);
  if (!valid && chance(30)) {
    auto begin = expression(rank, 2);
    auto after = begin + TileExpr::constant(pick(1, 3));
    return {std::move(begin), std::move(after), false};
  }
  switch (pick(0, 4)) {
    case 0: return {zero, end, false};
    case 1: {
      auto begin = inside(rank, extent);
      auto after = begin + one;
      return {std::move(begin), std::move(after), false};
    }
    case 2: {
      auto begin = inside(rank, extent);
      auto after = minimum(begin + TileExpr::constant(pick(1, 3)), end);
      return {std::move(begin), std::move(after), false};
    }
    case 3: {
      auto begin = empty ? expression(rank, 2) : inside(rank, extent) - TileExpr::constant(pick(0, 2));
      auto after = begin + TileExpr::constant(empty ? pick(1, 4) : 3);
      return {std::move(begin), std::move(after), true};
    }
    default: return {zero, inside(rank, extent) + one, false};
  }
}

inline TileRange own_tile(int dimension) {
  auto const at = TileExpr::dimension(dimension);
  return {at, at + TileExpr::constant(1), false};
}

inline Stage stage(int index, Options const& options) {
  static char const* const names[] = {"x", "y", "z", "w"};
  Stage result;
  result.name = "s" + std::to_string(index);
  auto const rank = pick(1, options.max_rank);
  for (int d = 0; d < rank; ++d) {
    auto const extent = pick(1, options.max_extent);
    if (d > 0 && result.tiles() * extent > options.max_tiles) break;
    result.grid.push_back({names[d], extent});
  }
  result.splits = pick(1, options.max_splits);
  result.output = "b" + std::to_string(index);
  return result;
}

inline Pipeline build_pipeline(Options const& options) {
  Pipeline pipeline;
  pipeline.name = "random";
  auto const count = pick(options.min_stages, options.max_stages);
  for (int s = 0; s < count; ++s) {
    pipeline.stages.push_back(stage(s, options));
    auto& consumer = pipeline.stages.back();
    if (s > 0 && options.reuse_buffers && chance(50)) {
      auto const& earlier = pipeline.stages[static_cast<std::size_t>(pick(0, s - 1))];
      consumer.output = earlier.output;
      if (chance(60)) consumer.grid = earlier.grid;
    }
    auto const producers = s == 0 ? 0 : pick(1, std::min(s, options.max_producers));
    std::vector<int> used;
    for (int p = 0; p < producers; ++p) {
      // A reader of a buffer depends on the last stage that wrote it.
      auto producer = pick(0, s - 1);
      for (int later = producer + 1; later < s; ++later)
        if (pipeline.stages[static_cast<std::size_t>(later)].output ==
            pipeline.stages[static_cast<std::size_t>(producer)].output)
          producer = later;
      if (std::find(used.begin(), used.end(), producer) != used.end()) continue;
      used.push_back(producer);

      auto const& from = pipeline.stages[static_cast<std::size_t>(producer)];
      // In place a tile reads nothing but what it overwrites.
      bool const in_place = options.valid && from.output == consumer.output && from.grid == consumer.grid;
      if (options.valid && from.output == consumer.output && !in_place)
        consumer.output = "b" + std::to_string(s);
      Dependence dependence;
      dependence.consumer = s;
      dependence.producer = producer;
      dependence.operand = "a" + std::to_string(p);
      consumer.operands.push_back({dependence.operand, from.output, 0, 0});
      auto const accesses = in_place ? 1 : pick(1, options.max_accesses);
      for (int a = 0; a < accesses; ++a) {
        Access access;
        for (std::size_t d = 0; d < from.grid.size(); ++d)
          access.ranges.push_back(in_place ? own_tile(static_cast<int>(d))
                                           : range(static_cast<int>(consumer.grid.size()),
                                                   static_cast<int>(from.grid[d].extent), options.valid,
                                                   !options.valid || a > 0));
        dependence.accesses.push_back(std::move(access));
      }
      pipeline.dependences.push_back(std::move(dependence));
    }
    if (chance(50)) consumer.operands.push_back({"w", "weights" + std::to_string(s), 0, 0});
  }
  return pipeline;
}

/// With options.valid, every pipeline passes check(). Shrinks towards two stages of one tile.
inline rc::Gen<Pipeline> pipelines(Options options = {}) {
  return rc::gen::exec([options] { return build_pipeline(options); });
}

}  // namespace tessera::random
