// SPDX-License-Identifier: Apache-2.0
// Random loop bodies of few tiles, right and wrong ones, by number.
#pragma once

#include <fmt/format.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cstdint>
#include <ostream>
#include <sstream>
#include <string>

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

/// One to six stages that read distances of 0 to 3, in copies from 1 to 4, or one for each iteration. Many
/// have too few copies, some read backwards.
inline Loop loop_body() {
  Loop loop;
  loop.body.name = "loop";
  int const stages = pick(1, 6), columns = pick(2, 4);
  for (int s = 0; s < stages; ++s)
    loop.body.stages.push_back(support::make_stage(fmt::format("s{}", s), columns, 1));
  for (int s = 0; s < stages; ++s) {
    auto& operands = loop.body.stages[static_cast<std::size_t>(s)].operands;
    for (int reads = pick(s == 0 ? 1 : 0, 2); reads > 0; --reads) {
      int const producer = pick(0, stages - 1), distance = chance(2) ? 0 : pick(producer < s ? 0 : 1, 3);
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

/// Loop number `seed`, the same in every test.
inline Loop loop_of(std::uint64_t seed) {
  return rc::gen::exec([] { return loop_body(); })(rc::Random(seed), rc::kNominalSize).value();
}

inline std::string text_of(std::uint64_t seed, Loop const& loop) {
  std::ostringstream text;
  text << "loop of seed " << seed << '\n';
  showValue(loop, text);
  return text.str();
}

/// Does a stage read the same iteration of itself, or of a later stage? Such a loop means nothing.
inline bool reads_backwards(Loop const& loop) {
  return std::any_of(loop.body.dependences.begin(), loop.body.dependences.end(),
                     [](Dependence const& one) { return one.producer >= one.consumer; });
}

}  // namespace tessera::random
