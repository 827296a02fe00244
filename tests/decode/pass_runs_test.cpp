// SPDX-License-Identifier: Apache-2.0
// Which tokens passes over prompts read: each once, in order, and no more than there is room for.
#include "kernels/decode/pass_runs.hpp"

#include <gtest/gtest.h>

#include <random>

namespace tessera::decode {
namespace {

void check_tables(std::vector<Positions> const& unread, int rows, int keys) {
  auto const tables = pass_tables(unread, rows, keys);
  std::vector<int> next;
  for (auto const& of : unread) next.push_back(of.begin);
  for (auto const& table : tables) {
    ASSERT_GT(table.count, 0);
    int row = 0, key_row = 0;
    bool behind = false;
    for (int r = 0; r < table.count; ++r) {
      auto const& run = table.runs[r];
      auto const s = static_cast<std::size_t>(run.sequence);
      ASSERT_GT(run.tokens, 0);
      ASSERT_EQ(run.row, row);
      ASSERT_EQ(run.key_row, key_row);
      ASSERT_EQ(run.position, next[s]) << "a token was left out, or read twice";
      if (r > 0) {
        ASSERT_GT(run.sequence, table.runs[r - 1].sequence);
      }
      row += run.tokens, key_row += run.keys();
      next[s] += run.tokens;
      behind = behind || run.position > 0;
      ASSERT_EQ(run.ends, next[s] == unread[s].end);
    }
    ASSERT_EQ(table.rows, row);
    ASSERT_EQ(table.key_rows(), key_row);
    ASSERT_EQ(table.behind, behind);
    ASSERT_LE(row, rows);
    ASSERT_LE(key_row, keys);
  }
  for (std::size_t s = 0; s < unread.size(); ++s)
    ASSERT_EQ(next[s], std::max(unread[s].begin, unread[s].end));
}

TEST(PassTables, ReadEachTokenOnce) {
  check_tables({}, 128, 128);
  check_tables({{0, 0}, {7, 7}}, 128, 128);
  check_tables({{0, 128}}, 128, 128);
  check_tables({{0, 129}}, 128, 200);
  check_tables({{0, 5}, {100, 190}, {0, 1}, {3, 3}}, 64, 190);
  std::mt19937 random(1);
  auto const below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 500; ++round) {
    std::vector<Positions> unread;
    int capacity = 1;
    for (int s = 1 + below(k_most_batch); s > 0; --s) {
      int const begin = below(3) == 0 ? below(500) : 0;
      unread.push_back({begin, begin + below(400)});
      capacity = std::max(capacity, unread.back().end);
    }
    int const rows = 64 * (1 + below(20));
    check_tables(unread, rows, std::max(rows, capacity + below(300)));
  }
}

TEST(PassTables, FillAPassBeforeTheNext) {
  auto const tables = pass_tables({{0, 100}, {0, 100}, {0, 56}}, 128, 256);
  ASSERT_EQ(tables.size(), 2u);
  EXPECT_EQ(tables[0].rows, 128);
  EXPECT_EQ(tables[1].rows, 128);
  EXPECT_FALSE(tables[0].behind);
  EXPECT_TRUE(tables[1].behind);
  EXPECT_EQ(tables[1].key_rows(), 156);
}

TEST(PassTables, RowsOfProductsAreFew) {
  EXPECT_EQ(rows_of_products(1), 64);
  EXPECT_EQ(rows_of_products(64), 64);
  EXPECT_EQ(rows_of_products(65), 128);
  EXPECT_EQ(rows_of_products(k_most_pass_rows), k_most_pass_rows);
}

}  // namespace
}  // namespace tessera::decode
