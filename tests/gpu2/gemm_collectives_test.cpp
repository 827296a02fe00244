// SPDX-License-Identifier: Apache-2.0
// Products with their collective on several GPUs: right at any number of rows, by every way and kernel.
#include "collective_fixture.hpp"

namespace tessera::gemm_collectives {
namespace {

TEST_F(GemmCollectives, SumsOfOneToSixtyFourRowsAreRightAndAlikeOnAllRanks) {
  for (int rows = 1; rows <= 64; ++rows)
    expect_right({Collective::all_reduce, rows, 2048 + 8 * rows, 1024}, {Way::words, {}, 0, 2});
}

TEST_F(GemmCollectives, SumsOfUpToThreeHundredRowsAreRightByTheWayThatIsTakenUntuned) {
  for (int rows = 65; rows <= 300; ++rows) expect_right({Collective::all_reduce, rows, 1040, 528}, {});
}

TEST_F(GemmCollectives, KernelsForFewRowsAreRight) {
  for (int rows = 1; rows <= 64; rows = rows < 4 ? rows + 1 : rows * 3 / 2) {
    auto const problem = fit(Problem{Collective::all_reduce, rows, 2048, 2048});
    auto const rings = few_configs({rows, 2048, problem.local_depth(), ElementType::bf16, false});
    // They take depths of whole 64s.
    if (problem.local_depth() % 64 != 0) GTEST_SKIP() << "no depth of " << problem.local_depth();
    ASSERT_FALSE(rings.empty());
    for (int i = 0; i < static_cast<int>(rings.size()); ++i)
      expect_right({Collective::all_reduce, rows, 2048, 2048}, {Way::words, few(i), 0, 2});
  }
}

TEST_F(GemmCollectives, EveryWayIsRightForManyRowsAndForRaggedOnes) {
  for (auto const collective : {Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather})
    for (auto const way : ways_of(fit(Problem{collective, 1000, 1040, 528}))) {
      if (way == Way::sequential) continue;
      for (int const rows : {1, 2, 3, 129, 1000, 2048, 3001, 4096, 8192})
        expect_right({collective, rows, 1040, 528}, {way, {}, 0, 2});
      expect_right({collective, 777, 1040, 528, ElementType::fp16}, {way, {}, 0, 2});
    }
}

TEST_F(GemmCollectives, OneLaunchOfFewRowsIsRight) {
  for (int rows = 1; rows <= k_most_fused_rows; ++rows)
    expect_right({Collective::all_reduce, rows, 2048 + 8 * rows, 1024}, {Way::fused, {}, 0, 2});
  // One tile and a part of it; more columns than a pass has; depth of no whole chunk; a model's.
  for (auto const& [columns, depth] : {std::pair{8, 64},
                                       {24, 4104},
                                       {2056, 264},
                                       {6000, 1000},
                                       {20480, 2048},
                                       {40008, 528},
                                       {8192, 8192},
                                       {12288, 1024}})
    for (int const rows : {1, 3, 8, 9, 16, 17, 32}) {
      expect_right({Collective::all_reduce, rows, columns, depth}, {Way::fused, {}, 0, 2});
      if (rows != 3) continue;
      expect_right({Collective::all_reduce, rows, columns, depth, ElementType::fp16}, {Way::fused, {}, 0, 2});
    }
}

TEST_F(GemmCollectives, KernelsThatStartEarlyAreRight) {
  for (auto const collective : {Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather})
    for (auto const way : {Way::store, Way::copy, Way::add})
      for (int const rows : {1000, 3001, 4096})
        if (have(collective, way))
          expect_right({collective, rows, 2048, 1024}, {way, tiles("128x256x64_2x1"), 0, 2});
}

TEST_F(GemmCollectives, AtASizeOfAModelsLayer) {
  expect_right({Collective::reduce_scatter, 2048, 8192, 8192}, {Way::store, tiles("128x256x64_2x1"), 0, 2});
  if (have(Collective::reduce_scatter, Way::add))
    expect_right({Collective::reduce_scatter, 2048, 8192, 8192}, {Way::add, {}, 4, 2});
  expect_right({Collective::all_gather, 2048, 8192, 4096}, {Way::copy, {}, 0, 2});
  expect_right({Collective::all_reduce, 8, 8192, 8192}, {Way::words, {}, 0, 2});
}

TEST_F(GemmCollectives, ByTheLibraryToo) {
  std::string why;
  if (gpus.group->nccl(why) == nullptr) GTEST_SKIP() << why;
  for (auto const collective : {Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather})
    for (int const rows : {1000, 3001})
      expect_right({collective, rows, 1040, 528}, {Way::sequential, {}, 0, 2});
}

}  // namespace
}  // namespace tessera::gemm_collectives
