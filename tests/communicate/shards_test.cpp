// SPDX-License-Identifier: Apache-2.0
// Shares of rows, and orders of ranks, by counting.
#include "tessera/communicate/shards.hpp"

#include <gtest/gtest.h>

#include <set>

namespace tessera {
namespace {

TEST(Shards, EveryRowIsOwnedOnceAndNoShareIsLargerThanTheFirst) {
  for (int ranks = 1; ranks <= k_most_ranks; ++ranks)
    for (int rows = 1; rows <= 70; ++rows) {
      int next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        auto const shard = shard_of(rows, ranks, rank);
        EXPECT_EQ(shard.begin, next);
        EXPECT_GE(shard.rows(), 0);
        EXPECT_LE(shard.rows(), most_shard_rows(rows, ranks));
        // As if the rows were padded: where a library's collective puts them.
        if (shard.rows() > 0) {
          EXPECT_EQ(shard.begin, rank * most_shard_rows(rows, ranks));
        }
        next = shard.end;
      }
      EXPECT_EQ(next, rows) << rows << " rows on " << ranks;
    }
}

TEST(Shards, FewRowsLeaveTheLastRanksWithout) {
  EXPECT_EQ(shard_of(3, 2, 0), (RowRange{0, 2}));
  EXPECT_EQ(shard_of(3, 2, 1), (RowRange{2, 3}));
  EXPECT_EQ(shard_of(5, 4, 2), (RowRange{4, 5}));
  EXPECT_EQ(shard_of(5, 4, 3).rows(), 0);
}

TEST(Shards, NoTwoRanksSendToTheSameOneAndTheOwnShareIsLast) {
  for (int ranks = 1; ranks <= k_most_ranks; ++ranks)
    for (int step = 0; step < ranks; ++step) {
      std::set<int> owners;
      for (int rank = 0; rank < ranks; ++rank) {
        int const owner = send_order(ranks, rank, step);
        owners.insert(owner);
        EXPECT_EQ(owner == rank, step == ranks - 1);
      }
      EXPECT_EQ(static_cast<int>(owners.size()), ranks);
    }
}

TEST(Shards, WhatIsTakenInAStepWasSentInTheOneBefore) {
  for (int ranks = 2; ranks <= k_most_ranks; ++ranks)
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(receive_order(ranks, rank, 0), rank);
      for (int step = 1; step < ranks; ++step)
        EXPECT_EQ(send_order(ranks, receive_order(ranks, rank, step), step - 1), rank);
    }
}

}  // namespace
}  // namespace tessera
