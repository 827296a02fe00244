// SPDX-License-Identifier: Apache-2.0
// Ways as loops over their launches, checked over ranks: right as they are, and refused without what keeps a
// launch behind the one before.
#include "kernels/gemm_collectives/described.hpp"

#include <gmock/gmock.h>

#include <tessera/check/check.hpp>

namespace tessera::gemm_collectives {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string refusal(Problem const& problem, Way way, LaunchOrder const& order = {}) {
  auto const loop = describe(problem, way, order);
  if (!loop) return to_text(loop.error());
  auto const checked = check(*loop, 6);
  if (!checked) return to_text(checked.error());
  for (auto const& one : checked->reuses()) {
    auto const& stages = checked->pipeline().stages;
    // A launch writes nothing twice. What the first one is told of launches before it lies in no buffer.
    int const each = checked->iteration_stages();
    if (!one.covered && one.writer / each != one.reader / each)
      return stages[static_cast<std::size_t>(one.writer)].name + " may overwrite " + one.buffer + " before " +
             stages[static_cast<std::size_t>(one.reader)].name + " has read it";
  }
  return "right";
}

// One row, of which all ranks but the first have none; fewer rows than ranks have tiles; shards of unlike
// sizes.
TEST(DescribedWays, EachIsRightOverRanksAndLaunchesOfAnyRows) {
  for (int const ranks : {2, 4, 8})
    for (int const rows : {1, 130, 777, 1000, 3001})
      for (auto const collective :
           {Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather}) {
        Problem const problem{collective, rows, 1024, 1024, ElementType::bf16, ranks};
        for (auto const way : ways_of(problem))
          if (way != Way::sequential) {
            EXPECT_EQ(refusal(problem, way), "right") << to_string(problem) << ", " << to_string(way);
          }
      }
}

TEST(DescribedWays, ASumReadsWhatEveryRankHasSentOnce) {
  Problem const problem{Collective::reduce_scatter, 1000, 1024, 1024, ElementType::bf16, 4};
  auto const loop = describe(problem, Way::copy);
  ASSERT_TRUE(loop) << to_text(loop.error());
  auto const checked = check(*loop, 1);
  ASSERT_TRUE(checked) << to_text(checked.error());
  auto const& pipeline = checked->pipeline();
  bool found = false;
  for (std::size_t i = 0; i < pipeline.dependences.size(); ++i) {
    auto const& one = pipeline.dependences[i];
    if (!pipeline.stages[static_cast<std::size_t>(one.consumer)].name.starts_with("sum")) continue;
    found = true;
    EXPECT_EQ(checked->facts()[i].min_producers, 4);
    EXPECT_EQ(checked->facts()[i].max_producers, 4);
    EXPECT_EQ(checked->facts()[i].unread_producers, 0);
  }
  EXPECT_TRUE(found);
}

TEST(DescribedWays, WithoutWordsOfThePeersSlotsAreOverwritten) {
  LaunchOrder order;
  order.peers = false;
  for (auto const collective : {Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather})
    for (int const rows : {2, 777, 1000, 3001})
      for (int const ranks : {2, 4})
        EXPECT_THAT(refusal({collective, rows, 1024, 1024, ElementType::bf16, ranks}, Way::copy, order),
                    HasSubstr("may overwrite"))
            << to_string(collective) << ", " << rows << " rows";
}

TEST(DescribedWays, OneCopyOfThePacketsIsTooFew) {
  Problem const problem{Collective::all_reduce, 64, 1024, 1024};
  LaunchOrder order;
  order.packet_copies = 1;
  EXPECT_THAT(refusal(problem, Way::words, order), HasSubstr("may overwrite"));
  order.packet_copies = 2;
  EXPECT_EQ(refusal(problem, Way::words, order), "right");
  // A rank that does not wait for its own launch before may be any number of launches ahead.
  order.stream = false;
  EXPECT_THAT(refusal(problem, Way::words, order), HasSubstr("may overwrite"));
}

TEST(DescribedWays, RefusalsNameWhatIsWrong) {
  EXPECT_THAT(refusal({Collective::all_reduce, 64, 1024, 1024}, Way::sequential),
              StartsWith("error E0581: nothing describes the way \"sequential\"\n"));
  EXPECT_THAT(refusal({Collective::all_reduce, 64, 1024, 1001}, Way::copy),
              StartsWith("error E0581: depth 1001"));
}

}  // namespace
}  // namespace tessera::gemm_collectives
