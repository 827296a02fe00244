// SPDX-License-Identifier: Apache-2.0
#include "soak/in_turns.hpp"

#include <gmock/gmock.h>

#include <stdexcept>
#include <utility>

namespace tessera::soak {
namespace {

using Turns = std::vector<std::pair<int, int>>;

TEST(SoakTurns, GoRoundAllThreadsInOrder) {
  for (int const threads : {1, 2, 3}) {
    Turns seen, wanted;
    std::vector<std::thread::id> ids(3);
    bool same = true;
    in_turns(50, threads, [&](int i, int thread) {
      seen.emplace_back(i, thread);
      auto& id = ids[static_cast<std::size_t>(thread)];
      same = same && (i < threads || id == std::this_thread::get_id());
      id = std::this_thread::get_id();
      return true;
    });
    for (int i = 0; i < 50; ++i) wanted.emplace_back(i, i % threads);
    EXPECT_EQ(seen, wanted);
    EXPECT_TRUE(same) << "a turn was taken by another thread";
    if (threads > 1) {
      EXPECT_NE(ids[0], ids[1]);
    }
  }
  in_turns(0, 3, [](int, int) { return ADD_FAILURE(), true; });
}

TEST(SoakTurns, EndWhereOneSaysSo) {
  for (int const threads : {1, 3}) {
    int count = 0;
    in_turns(50, threads, [&](int i, int) { return ++count, i < 6; });
    EXPECT_EQ(count, 7);
  }
}

TEST(SoakTurns, PassOnWhatIsThrown) {
  for (int const threads : {1, 2}) {
    int count = 0;
    EXPECT_THROW(in_turns(50, threads,
                          [&](int i, int) {
                            ++count;
                            if (i == 4) throw std::runtime_error("fourth");
                            return true;
                          }),
                 std::runtime_error);
    EXPECT_EQ(count, 5);
  }
}

}  // namespace
}  // namespace tessera::soak
