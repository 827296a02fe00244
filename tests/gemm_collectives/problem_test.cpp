// SPDX-License-Identifier: Apache-2.0
// Products with their collective, without a GPU: sizes, refusals, ways.
#include "kernels/gemm_collectives/problem.hpp"

#include <gmock/gmock.h>

namespace tessera::gemm_collectives {
namespace {

constexpr Collective k_all[] = {Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather};

std::string refusal_of(Problem const& problem) {
  auto const fine = check_problem(problem);
  return fine ? "" : to_text(fine.error());
}

TEST(GemmCollectiveProblem, AnyNumberOfRowsWillDo) {
  for (auto const collective : k_all)
    for (int rows = 1; rows <= 300; ++rows)
      EXPECT_EQ(refusal_of({collective, rows, 1024, 1024, ElementType::bf16, 8}), "");
}

TEST(GemmCollectiveProblem, WhatIsSpreadDivides) {
  EXPECT_EQ(refusal_of({Collective::all_reduce, 8, 1024, 520, ElementType::bf16, 2}),
            "error E0581: depth 520 is no multiple of 16: of 8 elements for each of 2 GPUs\n"
            "   gemm_all_reduce of 8 x 1024 x 520 on 2 GPUs\n"
            "   hint: pad to a multiple of 16");
  EXPECT_EQ(refusal_of({Collective::all_gather, 8, 1032, 512, ElementType::bf16, 4}),
            "error E0581: columns 1032 is no multiple of 32: of 8 elements for each of 4 GPUs\n"
            "   all_gather_gemm of 8 x 1032 x 512 on 4 GPUs\n"
            "   hint: pad to a multiple of 32");
  EXPECT_EQ(refusal_of({Collective::all_gather, 8, 1024, 520, ElementType::bf16, 2}), "");
  EXPECT_EQ(refusal_of({Collective::reduce_scatter, 8, 1032, 512, ElementType::bf16, 2}), "");
}

TEST(GemmCollectiveProblem, RowsAreAligned) {
  EXPECT_EQ(refusal_of({Collective::reduce_scatter, 8, 1028, 512, ElementType::bf16, 2}),
            "error E0581: rows of 1028 elements are not 16-byte aligned\n"
            "   gemm_reduce_scatter of 8 x 1028 x 512 on 2 GPUs\n"
            "   hint: pad to a multiple of 8");
}

TEST(GemmCollectiveProblem, SizesAndGroupsThatCannotBe) {
  EXPECT_THAT(refusal_of({Collective::all_reduce, 0, 1024, 512, ElementType::bf16, 2}),
              testing::StartsWith("error E0581: a product of 0 rows\n"));
  EXPECT_THAT(refusal_of({Collective::all_reduce, 1 << 21, 1024, 512, ElementType::bf16, 2}),
              testing::StartsWith("error E0581: a product of 2097152 rows\n"));
  EXPECT_THAT(refusal_of({Collective::all_reduce, 8, 1024, -8, ElementType::bf16, 2}),
              testing::StartsWith("error E0581: a product of -8 depth\n"));
  for (int const ranks : {-1, 0, 1, 17})
    EXPECT_THAT(refusal_of({Collective::all_reduce, 8, 1024, 512, ElementType::bf16, ranks}),
                testing::StartsWith("error E0581: a product on " + std::to_string(ranks) + " GPUs\n"));
}

TEST(GemmCollectiveProblem, TheWayThatIsTakenIsOneThatThereIs) {
  for (auto const collective : k_all)
    for (int const rows : {1, 64, 65, 512, 513, 2048, 100000})
      for (int const ranks : {2, 4, 8}) {
        Problem const problem{collective, rows, 8192, 8192, ElementType::bf16, ranks};
        for (bool const library : {true, false}) {
          auto const way = choose_way(problem, library);
          EXPECT_THAT(ways_of(problem), testing::Contains(way));
          EXPECT_TRUE(library || way != Way::sequential);
        }
      }
}

TEST(GemmCollectiveProblem, TheWayIsTheOneThatWasFastest) {
  auto const way = [](Collective collective, int rows, int columns, int depth, int ranks = 2) {
    return choose_way({collective, rows, columns, depth, ElementType::bf16, ranks});
  };
  // results/h200x2/gemm_collectives.json
  EXPECT_EQ(way(Collective::all_reduce, 64, 8192, 8192), Way::words);
  EXPECT_EQ(way(Collective::all_reduce, 300, 8192, 8192), Way::words);
  // Packets to everybody cost more than a ring's start, and shards are of few rows.
  EXPECT_EQ(way(Collective::all_reduce, 64, 8192, 8192, 8), Way::sequential);
  EXPECT_EQ(way(Collective::all_reduce, 64, 12288, 12288, 4), Way::sequential);
  EXPECT_EQ(way(Collective::all_reduce, 64, 8192, 8192, 4), Way::words);
  // results/h100x4/gemm_collectives.json: 11 % faster than the sequence.
  EXPECT_EQ(way(Collective::all_reduce, 32, 20480, 20480, 4), Way::fused);
  // Too many rows, or too few blocks, for one launch.
  EXPECT_EQ(way(Collective::all_reduce, 32, 8192, 8192), Way::fused);
  EXPECT_EQ(way(Collective::all_reduce, 32, 8192, 8192, 4), Way::fused);
  EXPECT_EQ(way(Collective::all_reduce, 33, 8192, 8192), Way::words);
  EXPECT_EQ(way(Collective::all_reduce, 1, 1008, 8192), Way::words);
  EXPECT_EQ(way(Collective::all_reduce, 1, 1024, 8192), Way::fused);
  // Weights would be read for each shard of few rows.
  EXPECT_EQ(way(Collective::reduce_scatter, 510, 8192, 22016), Way::sequential);
  EXPECT_EQ(way(Collective::reduce_scatter, 511, 8192, 22016), Way::store);
  EXPECT_EQ(way(Collective::reduce_scatter, 512, 8192, 22016, 4), Way::sequential);
  EXPECT_EQ(way(Collective::all_gather, 64, 22016, 8192), Way::sequential);
  EXPECT_EQ(way(Collective::all_gather, 512, 22016, 8192), Way::copy);
  EXPECT_EQ(way(Collective::all_reduce, 512, 8192, 8192), Way::store);
  EXPECT_EQ(way(Collective::reduce_scatter, 512, 8192, 22016), Way::store);
  EXPECT_EQ(way(Collective::reduce_scatter, 2048, 8192, 8192), Way::add);
  EXPECT_EQ(way(Collective::all_reduce, 2048, 8192, 22016), Way::add);
  EXPECT_EQ(way(Collective::reduce_scatter, 16384, 3072, 12288), Way::add);
  // Half a shard of these fills 73 and 69 % of the SMs.
  EXPECT_EQ(way(Collective::reduce_scatter, 2048, 12288, 12288), Way::copy);
  EXPECT_EQ(way(Collective::all_reduce, 8192, 4256, 4256), Way::copy);
  EXPECT_EQ(way(Collective::all_gather, 2048, 22016, 8192), Way::copy);
  // Only a pair of GPUs has one sum to add.
  EXPECT_EQ(way(Collective::reduce_scatter, 4096, 8192, 8192, 4), Way::copy);
}

TEST(GemmCollectiveProblem, TwoGpusAloneAddAsAProductEnds) {
  using testing::Contains;
  using testing::Not;
  EXPECT_THAT(ways_of({Collective::reduce_scatter, 8, 8, 32, ElementType::bf16, 2}), Contains(Way::add));
  EXPECT_THAT(ways_of({Collective::reduce_scatter, 8, 8, 32, ElementType::bf16, 4}), Not(Contains(Way::add)));
  EXPECT_THAT(ways_of({Collective::all_gather, 8, 16, 8, ElementType::bf16, 2}), Not(Contains(Way::add)));
}

TEST(GemmCollectiveProblem, ASlotHoldsTheLargestShare) {
  for (auto const collective : k_all)
    for (int const rows : {1, 7, 3001})
      for (int rank = 0; rank < 4; ++rank) {
        Problem const problem{collective, rows, 1024, 512, ElementType::bf16, 4};
        long long const wide = collective == Collective::all_gather ? 512 : 1024;
        EXPECT_GE(slot_elements(problem), wide * shard_of(rows, 4, rank).rows());
      }
}

TEST(GemmCollectiveProblem, WhatHasToCrossTheLink) {
  // Half of 100 x 1000 elements of 2 bytes on two GPUs; of an all-reduce twice; of an all-gather rows of a.
  EXPECT_EQ(wire_bytes({Collective::reduce_scatter, 100, 1000, 64}), 100'000);
  EXPECT_EQ(wire_bytes({Collective::all_reduce, 100, 1000, 64}), 200'000);
  EXPECT_EQ(wire_bytes({Collective::all_gather, 100, 1000, 64}), 6'400);
  EXPECT_EQ(wire_bytes({Collective::reduce_scatter, 100, 1000, 64, ElementType::bf16, 4}), 150'000);
}

TEST(GemmCollectiveProblem, GeluIsOfWholeSums) {
  Problem problem{Collective::all_gather, 8, 64, 64};
  problem.gelu = true;
  EXPECT_TRUE(check_problem(problem));
  problem.collective = Collective::all_reduce;
  auto const refused = check_problem(problem);
  ASSERT_FALSE(refused);
  EXPECT_EQ(to_text(refused.error()),
            "error E0581: GeLU of partial sums\n"
            "   gemm_all_reduce with GeLU of 8 x 64 x 64 on 2 GPUs\n"
            "   hint: take it behind the sum, or ask for an all-gather");
}

}  // namespace
}  // namespace tessera::gemm_collectives
