// SPDX-License-Identifier: Apache-2.0
// What ways should take, by hand for figures that are easy to add up.
#include "kernels/gemm_collectives/way_price.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace tessera::gemm_collectives {
namespace {

/// 1 MB takes 1 us across the link and 0.1 us from memory; a row of a product takes 0.1 us.
WayFigures const k_figures{1000, 1, 2, 10000, 0.5, 0.25, 132, nullptr};
double product_us(int rows, int, int) { return 0.1 * rows; }

double price(Collective collective, Way way, int rows, int ranks = 2, int parts = 1) {
  // 1 MB of results for each 500 rows; of an all-gather 1 MB of operands.
  Problem const problem{collective,        rows, 1000, collective == Collective::all_gather ? 1000 : 64,
                        ElementType::bf16, ranks};
  return price_of(problem, way, parts, k_figures, product_us).value();
}

TEST(WayPrice, CopiesHideBehindProducts) {
  // 50 + 50 us of products; the copy of 1 MB (3 us) is behind the second one. Launch, hop, sum of 3 MB, hop.
  EXPECT_DOUBLE_EQ(price(Collective::reduce_scatter, Way::copy, 1000), 100 + 0.5 + 1 + 0.3 + 1);
  // Four ranks: 4 x 25 us, and what each copy of 0.5 MB takes is hidden, too; the sum reads four and writes
  // one.
  EXPECT_DOUBLE_EQ(price(Collective::reduce_scatter, Way::copy, 1000, 4), 100 + 0.5 + 1 + 0.25 + 1);
  // For all: 1 MB to one peer takes longer than the sum.
  EXPECT_DOUBLE_EQ(price(Collective::all_reduce, Way::copy, 1000), 100 + 0.5 + 1 + 1 + 1);
}

TEST(WayPrice, StoresAcrossTheLinkAreWaitedFor) {
  EXPECT_DOUBLE_EQ(price(Collective::reduce_scatter, Way::store, 1000), 100 + 1 + 0.5 + 1 + 0.3 + 1);
}

TEST(WayPrice, ProductsThatAddSpareTheSum) {
  // The peer's part has come at 50 + 3 + 1 us, when the own product would begin at 50.
  EXPECT_DOUBLE_EQ(price(Collective::reduce_scatter, Way::add, 1000), 54 + 0.5 + 50 + 0.1);
  // In two parts it has come at 50 + 2.5 + 1, where the first own product begins at 50 ... the first part's
  // copy is over by then.
  EXPECT_DOUBLE_EQ(price(Collective::reduce_scatter, Way::add, 1000, 2, 2), 50 + 25 + 0.05 + 25 + 0.05);
  // For all: the last part's copy and a hop.
  EXPECT_DOUBLE_EQ(price(Collective::all_reduce, Way::add, 1000, 2, 2), 100.1 + 2.5 + 1);
}

TEST(WayPrice, APartOfAShardTakesWholeWavesOfTheShardsKernel) {
  auto figures = k_figures;
  Problem const problem{Collective::reduce_scatter, 1000, 1000, 64};
  // A shard of 500 rows has 4 x 4 tiles: with 16 SMs half of them takes as long as all.
  figures.sms = 16;
  double const sum = 0.05;
  EXPECT_DOUBLE_EQ(price_of(problem, Way::add, 2, figures, product_us, PartKernel::of_shard).value(),
                   4 * 50 + 2 * sum);
  // With 12 SMs a shard has two waves, a half one.
  figures.sms = 12;
  EXPECT_DOUBLE_EQ(price_of(problem, Way::add, 2, figures, product_us, PartKernel::of_shard).value(),
                   4 * 25 + 2 * sum);
}

TEST(WayPrice, GatheredRowsArriveBesideTheOwnProduct) {
  EXPECT_DOUBLE_EQ(price(Collective::all_gather, Way::copy, 1000), 100);
  // Rows that take longer to come than to multiply: 4 ranks of 5 rows, 0.5 us each, come 2.01 us apart.
  EXPECT_NEAR(price(Collective::all_gather, Way::copy, 20, 4), 3 * 2.01 + 1 + 0.5, 1e-9);
}

TEST(WayPrice, WordsPayForPackets) {
  // 500 rows: 1 MB, 4/3 of it to one peer, and 8/3 of it read.
  EXPECT_NEAR(price(Collective::all_reduce, Way::words, 500), 50 + 0.25 + 1 + 4.0 / 3 + 0.8 / 3, 1e-9);
}

TEST(WayPrice, OneLaunchSparesTheSecondAndWhatItReads) {
  // 500 rows: what words pay, without a launch and without packets that are read again.
  EXPECT_NEAR(price(Collective::all_reduce, Way::fused, 500), 50 + 1 + 4.0 / 3, 1e-9);
}

TEST(WayPrice, TheSequenceIsAProductALaunchAndTheLibrarysTime) {
  auto figures = k_figures;
  // 1 MB of results takes 10 us, 4 MB 20.
  LibraryTimes const times{{{{Collective::reduce_scatter, 2}, {{1, 10}, {4, 20}}}}};
  auto const us = [&](int rows, int ranks = 2) {
    return price_of({Collective::reduce_scatter, rows, 1000, 64, ElementType::bf16, ranks}, Way::sequential,
                    1, figures, product_us);
  };
  EXPECT_FALSE(us(500));
  figures.library = &times;
  EXPECT_DOUBLE_EQ(us(500).value(), 50 + 0.5 + 10);
  EXPECT_DOUBLE_EQ(us(1000).value(), 100 + 0.5 + 10 * std::sqrt(2.0));
  EXPECT_DOUBLE_EQ(us(2000).value(), 200 + 0.5 + 20);
  // 10 us for each 3 MB more.
  EXPECT_DOUBLE_EQ(us(3500).value(), 350 + 0.5 + 30);
  EXPECT_FALSE(us(499));
  EXPECT_FALSE(us(500, 4));
}

}  // namespace
}  // namespace tessera::gemm_collectives
