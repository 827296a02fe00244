// SPDX-License-Identifier: Apache-2.0
// The attention block of a tensor-parallel layer, without a GPU: its products, whose heads are whose, and
// what is refused.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/gemm_collectives/parallel_attention_problem.hpp"

namespace tessera::gemm_collectives {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

AttentionProblem layer(int heads, int key_heads, int ranks, int head_size = 64) {
  AttentionProblem problem;
  problem.tokens = 300;
  problem.model = 1024;
  problem.heads = heads;
  problem.key_heads = key_heads;
  problem.head_size = head_size;
  problem.ranks = ranks;
  return problem;
}

std::string refusal_of(AttentionProblem const& problem) {
  auto const fine = check_problem(problem);
  return fine ? "" : to_text(fine.error());
}

TEST(ParallelAttentionProblem, ItsProductsHaveTheSizesOfTheLayer) {
  auto problem = layer(8, 2, 2);
  Problem const gather{Collective::all_gather, 300, 768, 1024, ElementType::bf16, 2};
  EXPECT_TRUE(first_product(problem) == gather);
  Problem const scatter{Collective::reduce_scatter, 300, 1024, 512, ElementType::bf16, 2};
  EXPECT_TRUE(second_product(problem) == scatter);
  problem.rows = Tokens::whole;
  EXPECT_TRUE(first_product(problem) == gather);
  auto const sum = second_product(problem);
  EXPECT_EQ(sum.collective, Collective::all_reduce);
  EXPECT_EQ(problem.local_columns(), first_product(problem).local_columns());
  EXPECT_EQ(problem.local_heads() * problem.head_size, sum.local_depth());
}

TEST(ParallelAttentionProblem, AnyTokensAndEverySizeOfHeadsWillDo) {
  for (auto const rows : {Tokens::spread, Tokens::whole})
    for (int const head_size : {64, 80, 96, 128, 256})
      for (auto const& [heads, key_heads, ranks] : {std::tuple{8, 0, 2}, {8, 2, 2}, {12, 4, 4}, {16, 16, 16}})
        for (int tokens = 1; tokens <= 300; ++tokens) {
          auto problem = layer(heads, key_heads, ranks, head_size);
          problem.tokens = tokens;
          problem.rows = rows;
          ASSERT_EQ(refusal_of(problem), "");
        }
}

TEST(ParallelAttentionProblem, HeadsOfARankLieAsTheirStridesSay) {
  auto problem = layer(8, 2, 2);
  problem.sequences = 3;
  problem.window = 50;
  problem.scale = 0.5f;
  auto const a = local_attention(problem, nullptr);
  EXPECT_TRUE(attention_sm90::check(a));
  EXPECT_EQ(a.heads, 4);
  EXPECT_EQ(a.key_heads, 1);
  EXPECT_EQ(a.sequences, 3);
  EXPECT_EQ(a.query_rows, 300);
  EXPECT_TRUE(a.causal);
  EXPECT_EQ(a.window, 50);
  EXPECT_EQ(a.scale, 0.5f);
  // [key head][four query heads, key, value][64]
  EXPECT_EQ(a.q.row, 384);
  EXPECT_EQ(a.q.head, 64);
  EXPECT_EQ(a.q.group, 384);
  EXPECT_EQ(a.k.row, 384);
  EXPECT_EQ(a.k.head, 384);
  EXPECT_EQ(a.v.head, 384);
  EXPECT_EQ(first_key(problem), 256);
  EXPECT_EQ(first_value(problem), 320);
}

TEST(ParallelAttentionProblem, RowsOfARankAreItsQueriesKeysAndValuesByTurns) {
  // Of heads of 64: 0 to 3 are queries, 4 and 5 keys, 6 and 7 values.
  auto const heads_of = [](AttentionProblem const& problem, int rank) {
    std::vector<int> heads;
    auto const rows = rows_of_rank(problem, rank);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(rows[i] % 64, static_cast<int>(i % 64));
      if (i % 64 == 0) heads.push_back(rows[i] / 64);
    }
    return heads;
  };
  EXPECT_THAT(heads_of(layer(4, 2, 2), 0), ElementsAre(0, 1, 4, 6));
  EXPECT_THAT(heads_of(layer(4, 2, 2), 1), ElementsAre(2, 3, 5, 7));
  EXPECT_THAT(heads_of(layer(4, 0, 2), 1), ElementsAre(2, 6, 10, 3, 7, 11));
}

TEST(ParallelAttentionProblem, EveryRowIsOfOneRank) {
  for (int const ranks : {2, 4, 8}) {
    auto const problem = layer(16, 8, ranks, 80);
    std::vector<int> all;
    for (int rank = 0; rank < ranks; ++rank) {
      auto const rows = rows_of_rank(problem, rank);
      EXPECT_EQ(static_cast<int>(rows.size()), problem.local_columns());
      all.insert(all.end(), rows.begin(), rows.end());
    }
    std::sort(all.begin(), all.end());
    std::vector<int> expected((16 + 2 * 8) * 80);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(all, expected);
  }
}

TEST(ParallelAttentionProblem, HeadsThatDoNotDivideAreRefusedWithTheGroupsThatDo) {
  EXPECT_EQ(
      refusal_of(layer(12, 0, 8)),
      "error E0581: 12 heads do not divide among 8 GPUs\n"
      "   tensor-parallel attention of 300 tokens, 1024 columns, 12 heads (12 of keys) of 64, on 8 GPUs\n"
      "   hint: take a group of 2 or 3 or 4 or 6 or 12 GPUs");
  EXPECT_EQ(
      refusal_of(layer(32, 4, 8)),
      "error E0581: 4 key heads do not divide among 8 GPUs\n"
      "   tensor-parallel attention of 300 tokens, 1024 columns, 32 heads (4 of keys) of 64, on 8 GPUs\n"
      "   hint: take a group of 2 or 4 GPUs, or repeat each key head and its value head in w_in 2 times");
  EXPECT_THAT(refusal_of(layer(7, 7, 2)), HasSubstr("hint: take a group of 7 GPUs"));
  EXPECT_THAT(refusal_of(layer(17, 0, 2)), HasSubstr("hint: pad with heads whose weights are zeros"));
  EXPECT_THAT(refusal_of(layer(8, 1, 2)),
              HasSubstr("repeat each key head and its value head in w_in 2 times"));
}

TEST(ParallelAttentionProblem, HeadsThatCannotBe) {
  for (auto const& [heads, key_heads] : {std::pair{0, 0}, {-8, 0}, {8, -2}, {8, 3}, {2, 8}, {1 << 30, 0}})
    EXPECT_THAT(refusal_of(layer(heads, key_heads, 2)), StartsWith("error E0581: "))
        << heads << ' ' << key_heads;
  EXPECT_THAT(refusal_of(layer(8, 3, 2)),
              StartsWith("error E0581: 8 heads cannot share 3 key heads evenly\n"));
  for (int const size : {0, -64, 72, 512})
    EXPECT_THAT(refusal_of(layer(8, 2, 2, size)),
                StartsWith("error E0590: attention: no kernel for heads of " + std::to_string(size) + "\n"));
  for (int const ranks : {-1, 0, 1, 17})
    EXPECT_THAT(refusal_of(layer(8, 2, ranks)),
                StartsWith("error E0581: attention on " + std::to_string(ranks) + " GPUs\n"));
}

TEST(ParallelAttentionProblem, RowsThatCannotBe) {
  auto const changed = [](auto const& change) {
    auto problem = layer(8, 2, 2);
    change(problem);
    return refusal_of(problem);
  };
  EXPECT_THAT(changed([](auto& p) { p.tokens = 0; }),
              StartsWith("error E0590: attention: 1 sequences, 4 heads, 0 "));
  EXPECT_THAT(changed([](auto& p) { p.tokens = 1 << 21; }),
              StartsWith("error E0581: a product of 2097152 rows\n"));
  EXPECT_THAT(changed([](auto& p) { p.model = 1020; }),
              StartsWith("error E0581: rows of 1020 elements are not 16-byte aligned\n"));
  EXPECT_THAT(changed([](auto& p) { p.sequences = 7; }),
              StartsWith("error E0590: attention: 300 rows of queries are not 7 equal sequences\n"));
  EXPECT_EQ(changed([](auto& p) { p.sequences = 7, p.ragged = true; }), "");
  EXPECT_EQ(changed([](auto& p) { p.sequences = 7, p.ragged = true, p.longest = 300; }), "");
  EXPECT_THAT(changed([](auto& p) { p.sequences = 7, p.ragged = true, p.longest = 301; }),
              StartsWith("error E0581: a longest sequence of 301 tokens among 300\n"));
  EXPECT_THAT(changed([](auto& p) { p.longest = 100; }),
              StartsWith("error E0581: a longest sequence, and all are of one length\n"));
  EXPECT_THAT(changed([](auto& p) { p.window = -1; }),
              StartsWith("error E0590: attention: a window of -1 keys\n"));
  EXPECT_THAT(changed([](auto& p) { p.scale = std::nanf(""); }), StartsWith("error E0590: "));
}

TEST(ParallelAttentionProblem, TurnedHeadsAreBf16) {
  auto problem = layer(8, 2, 2);
  problem.type = ElementType::fp16;
  EXPECT_THAT(refusal_of(problem), StartsWith("error E0581: turned heads are bf16, and these are fp16\n"));
  problem.turning = Turning::none;
  EXPECT_EQ(refusal_of(problem), "");
}

}  // namespace
}  // namespace tessera::gemm_collectives
