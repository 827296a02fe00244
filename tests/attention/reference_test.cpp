// SPDX-License-Identifier: Apache-2.0
// Plain loops on the host, with which the GPU's plain loops agree in tests of their own.
#include "kernels/attention_sm90/reference.hpp"

#include <gmock/gmock.h>

#include <cmath>

#include "kernels/attention_sm90/dropout.hpp"

namespace tessera::attention_sm90 {
namespace {

Problem small() {
  Problem p;
  p.heads = 2;
  p.key_heads = 1;
  p.head_size = 64;
  p.query_rows = 3;
  p.key_rows = 5;
  return completed(p);
}

std::vector<float> run(Problem const& p, float of_values) {
  std::vector<float> q(static_cast<std::size_t>(p.query_rows * p.q.row), 0.0f),
      k(static_cast<std::size_t>(p.key_rows * p.k.row), 1.0f), v(k.size()), out(q.size(), -1.0f);
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = of_values * static_cast<float>(i / 64);
  reference(p, {}, q, k, v, out, Rounding::none);
  return out;
}

TEST(AttentionReference, EqualScoresGiveTheMeanOfWhatIsSeen) {
  auto p = small();
  EXPECT_NEAR(run(p, 1).front(), 2, 1e-6);
  p.causal = true;  // query 0 sees keys 0 to 2, query 2 all five
  auto const causal = run(p, 1);
  EXPECT_NEAR(causal.front(), 1, 1e-6);
  EXPECT_NEAR(causal.back(), 2, 1e-6);
  p.window = 2;
  EXPECT_NEAR(run(p, 1).front(), 1.5, 1e-6);
}

TEST(AttentionReference, QueriesThatSeeNothingGiveZeros) {
  auto p = small();
  p.key_rows = 2;
  p.causal = true;
  auto const out = run(p, 1);
  EXPECT_EQ(out.front(), 0);
  EXPECT_NEAR(out.back(), 0.5, 1e-6);
}

TEST(AttentionReference, SequencesAtStepsAreThoseThatLieOneBehindTheOther) {
  auto close = small();
  close.sequences = 2;
  close.query_rows = 6;
  close.key_rows = 10;
  close.longest_queries = 3;
  auto apart = close;
  apart.query_step = 5;
  apart.query_rows = 8;
  apart.key_step = 7;
  apart.key_rows = 12;
  for (int const number : {0, 1}) {
    auto const there = sequence_of(close, {}, number), here = sequence_of(apart, {}, number);
    EXPECT_EQ(here.queries, there.queries);
    EXPECT_EQ(here.keys, there.keys);
    EXPECT_EQ(here.first_query, 5 * number);
    EXPECT_EQ(here.first_key, 7 * number);
  }
  // Values are their rows' numbers: means of rows 0 to 4, 5 to 9 and 7 to 11.
  auto const one = run(close, 1), other = run(apart, 1);
  EXPECT_NEAR(one.front(), 2, 1e-6);
  EXPECT_NEAR(one.back(), 7, 1e-6);
  EXPECT_NEAR(other.front(), 2, 1e-6);
  EXPECT_NEAR(other.back(), 9, 1e-6);
  EXPECT_EQ(other[static_cast<std::size_t>(4 * apart.q.row)], -1);  // of no sequence
}

TEST(AttentionReference, TypesRoundToTheNearest) {
  EXPECT_EQ(rounded(1 + 0x1p-9f, ElementType::bf16), 1);
  EXPECT_EQ(rounded(1 + 0x1.8p-8f, ElementType::bf16), 1 + 0x1p-7f);
  EXPECT_EQ(rounded(1 + 0x1p-12f, ElementType::fp16), 1);
  EXPECT_EQ(rounded(1 + 0x1.8p-11f, ElementType::fp16), 1 + 0x1p-10f);
}

TEST(AttentionDropout, DropsAsManyAsItSaysAndOthersWithAnotherSeed) {
  auto const below = drop_below(0.25f);
  int dropped = 0, other = 0, alike = 0;
  for (int query = 0; query < 200; ++query)
    for (int key = 0; key < 200; ++key) {
      bool const one = drop_number(1, 0, 3, query, key) < below,
                 two = drop_number(2, 0, 3, query, key) < below;
      dropped += one;
      other += two;
      alike += one == two;
    }
  // 40000 draws: a standard deviation is 87; alike by chance in 5 of 8.
  EXPECT_NEAR(dropped, 10000, 450);
  EXPECT_NEAR(other, 10000, 450);
  EXPECT_NEAR(alike, 25000, 500);
  EXPECT_EQ(drop_below(0), 0U);
}

}  // namespace
}  // namespace tessera::attention_sm90
