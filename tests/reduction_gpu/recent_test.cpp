// SPDX-License-Identifier: Apache-2.0
#include "kernels/common/recent.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace tessera::kernels {
namespace {

/// Adds as users do: what is in the way goes first.
std::string put(Recent<int, std::string>& all, int key) {
  std::string gone;
  while (auto* const one = all.in_the_way()) {
    gone += *one;
    all.give_up();
  }
  all.add(key, std::to_string(key));
  return gone;
}

TEST(Recent, GivesUpWhatWasNotAskedForForTheLongestTime) {
  Recent<int, std::string> all;
  all.keep(3);
  for (int const key : {1, 2, 3}) EXPECT_EQ(put(all, key), "");
  ASSERT_NE(all.find(1), nullptr);  // 2 is the oldest now
  EXPECT_EQ(put(all, 4), "2");
  EXPECT_EQ(all.find(2), nullptr);
  EXPECT_EQ(put(all, 2), "3");
  EXPECT_EQ(all.size(), 3U);
  EXPECT_EQ(put(all, 5), "1");
}

TEST(Recent, KeepsAllWithoutALimit) {
  Recent<int, std::string> all;
  for (int key = 0; key < 1000; ++key) EXPECT_EQ(put(all, key), "");
  EXPECT_EQ(all.size(), 1000U);
  all.keep(10);
  EXPECT_NE(all.in_the_way(), nullptr);
  put(all, 1000);
  EXPECT_EQ(all.size(), 10U);
  EXPECT_NE(all.find(1000), nullptr);
  EXPECT_NE(all.find(999), nullptr);
  EXPECT_EQ(all.find(990), nullptr);
}

TEST(Recent, WhatIsKeptStaysWhereItIs) {
  Recent<int, std::string> all;
  all.keep(2);
  put(all, 1);
  auto const* const one = all.find(1);
  for (int key = 2; key < 20; ++key) {
    put(all, key);
    EXPECT_EQ(all.find(1), one);
  }
}

TEST(Recent, HoldsWhatCannotBeCopied) {
  Recent<int, std::unique_ptr<int>> all;
  all.keep(1);
  all.add(1, std::make_unique<int>(7));
  int sum = 0;
  all.for_each([&](auto const& one) { sum += *one; });
  EXPECT_EQ(sum, 7);
  all.clear();
  EXPECT_EQ(all.find(1), nullptr);
}

}  // namespace
}  // namespace tessera::kernels
