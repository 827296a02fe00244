// SPDX-License-Identifier: Apache-2.0
#include "measure/gpu/methods/meeting.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace tessera::probe {
namespace {

TEST(Meeting, NobodyGoesOnBeforeAllHaveCome) {
  constexpr int k_threads = 3, k_rounds = 200;
  Meeting meeting(k_threads);
  std::vector<int> round(k_threads, 0);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < k_threads; ++t)
    threads.emplace_back([&, t] {
      for (int r = 1; r <= k_rounds; ++r) {
        round[t] = r;
        meeting.meet();
        for (int const other : round) wrong += other != r;
        meeting.meet();
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Meeting, WhoLeavesForGoodLetsTheOthersGoOn) {
  Meeting meeting(2);
  int met = 0;
  std::thread waits([&] {
    for (; met < 10; ++met) meeting.meet();
  });
  meeting.meet();
  meeting.leave();
  waits.join();
  EXPECT_EQ(met, 10);
}

}  // namespace
}  // namespace tessera::probe
