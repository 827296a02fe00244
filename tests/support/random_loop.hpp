// SPDX-License-Identifier: Apache-2.0
// Random loop bodies of few tiles, and what they compute: in their own order, and as they were meant.
#pragma once

#include <fmt/format.h>
#include <rapidcheck.h>

#include <cstdint>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "support/plans.hpp"
#include "support/random_pipeline.hpp"
#include "tessera/describe/loop.hpp"

namespace tessera {

inline void showValue(Loop const& loop, std::ostream& out) {
  showValue(loop.body, out);
  for (auto const& [dependence, distance] : loop.carried)
    out << "  carried: " << dependence.consumer << " reads " << dependence.producer << " of " << distance
        << " before through " << dependence.operand << '\n';
  for (auto const& [buffer, copies] : loop.copies) out << "  " << copies << " copies of " << buffer << '\n';
}

}  // namespace tessera

namespace tessera::random {

/// A row of tiles for each stage; a tile reads its own tile and a neighbour, or all of them.
inline Access neighbours(int columns) {
  auto const x = TileExpr::dimension(0);
  int const kind = pick(0, 3);
  auto const at = [&](int left, int right) {
    return TileRange{x + TileExpr::constant(left), x + TileExpr::constant(right + 1), true};
  };
  TileRange const all{TileExpr::constant(0), TileExpr::constant(columns), false};
  return {{kind == 0   ? support::just(x)
           : kind == 1 ? at(-1, 0)
           : kind == 2 ? at(0, 1)
                       : all,
           support::just(TileExpr::dimension(1))}};
}

inline Loop loop_body(int most_stages = 6) {
  Loop loop;
  loop.body.name = "loop";
  int const stages = pick(1, most_stages), columns = pick(2, 4);
  for (int s = 0; s < stages; ++s)
    loop.body.stages.push_back(support::make_stage(fmt::format("s{}", s), columns, 1));
  for (int s = 0; s < stages; ++s) {
    auto& operands = loop.body.stages[static_cast<std::size_t>(s)].operands;
    for (int reads = pick(s == 0 ? 1 : 0, 2); reads > 0; --reads) {
      int const producer = pick(0, stages - 1), distance = pick(producer < s ? 0 : 1, 3);
      auto const name = fmt::format("a{}", operands.size());
      operands.push_back({name, fmt::format("s{}", producer), 0, 0});
      Dependence const one{s, producer, name, {neighbours(columns)}, OnComplete::release_waiters, {}, {}};
      if (distance == 0)
        loop.body.dependences.push_back(one);
      else
        loop.carried.push_back({one, distance});
    }
  }
  for (int s = 0; s < stages; ++s)
    if (int const copies = pick(0, 4); copies != 1) loop.copies.push_back({fmt::format("s{}", s), copies});
  return loop;
}

/// Values of an unrolled pipeline's buffers. A tile's value mixes what it reads with its stage and place.
class Values {
 public:
  explicit Values(Pipeline const& pipeline) : pipeline_(pipeline) {
    // Before threads come: every buffer is there, with values of before the loop.
    for (auto const& stage : pipeline.stages) {
      add(stage.output, stage.tiles());
      for (auto const& operand : stage.operands) add(operand.buffer, stage.tiles());
    }
  }

  void compute(std::size_t s, std::int64_t tile) {
    auto const& stage = pipeline_.stages[s];
    // By its place in the body, which the copies of buffers do not change.
    std::uint64_t value = mix(static_cast<std::uint64_t>(s), static_cast<std::uint64_t>(tile));
    for (auto const& operand : stage.operands) {
      auto const& from = buffers_.at(operand.buffer);
      for (auto const& dependence : pipeline_.dependences)
        if (dependence.consumer == static_cast<int>(s) && dependence.operand == operand.name)
          for (auto const& range : dependence.accesses.front().ranges) {
            int const at[] = {static_cast<int>(tile)};
            auto const size = static_cast<std::int64_t>(from.size());
            if (&range != &dependence.accesses.front().ranges.front()) break;
            auto const begin = std::max<std::int64_t>(0, range.begin.evaluate(at));
            auto const end = std::min(size, range.end.evaluate(at));
            for (auto i = begin; i < end; ++i) value = mix(value, from[static_cast<std::size_t>(i)]);
          }
    }
    buffers_.at(stage.output)[static_cast<std::size_t>(tile)] = value;
  }

  /// Stage by stage, tiles up or down.
  void compute_all(bool down) {
    for (std::size_t s = 0; s < pipeline_.stages.size(); ++s) {
      auto const tiles = pipeline_.stages[s].tiles();
      for (std::int64_t t = 0; t < tiles; ++t) compute(s, down ? tiles - 1 - t : t);
    }
  }

  std::vector<std::uint64_t> const& of(std::string const& buffer) const { return buffers_.at(buffer); }

 private:
  static std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
    a ^= b + 0x9e3779b97f4a7c15ull + (a << 6) + (a >> 2);
    return a * 0xff51afd7ed558ccdull;
  }
  void add(std::string const& buffer, std::int64_t tiles) {
    auto& values = buffers_[buffer];
    while (static_cast<std::int64_t>(values.size()) < tiles) values.push_back(values.size());
  }

  Pipeline const& pipeline_;
  std::map<std::string, std::vector<std::uint64_t>> buffers_;
};

/// What each stage of the last iteration writes if every iteration has buffers of its own: what is meant.
inline std::vector<std::vector<std::uint64_t>> meant(Loop loop, int iterations) {
  loop.copies.clear();
  for (auto const& stage : loop.body.stages)
    loop.copies.push_back({stage.output, BufferCopies::each_iteration});
  auto const all = unroll(loop, iterations);
  Values values(all);
  values.compute_all(false);
  std::vector<std::vector<std::uint64_t>> result;
  for (auto const& stage : loop.body.stages)
    result.push_back(values.of(copy_name(loop, stage.output, iterations - 1)));
  return result;
}

/// The same of an unrolled loop with its own copies.
inline std::vector<std::vector<std::uint64_t>> found(Loop const& loop, Values const& values, int iterations) {
  std::vector<std::vector<std::uint64_t>> result;
  for (auto const& stage : loop.body.stages)
    result.push_back(values.of(copy_name(loop, stage.output, iterations - 1)));
  return result;
}

}  // namespace tessera::random
