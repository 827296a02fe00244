// SPDX-License-Identifier: Apache-2.0
// Words that the GPU raises, with the GPU and CUDA's allocation replaced.
#include "gpu/told_flag.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

extern "C" cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) {
  *memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  return *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}

namespace tessera::gpu {
namespace {

/// As a kernel does it.
void raise(ToldFlag const& flag) { __atomic_store_n(flag.address(), 1u, __ATOMIC_RELEASE); }

struct Flag : ToldFlag {
  explicit Flag(char const* name, bool launches = true) {
    EXPECT_EQ(make(name), cudaSuccess);
    if (launches) launched();
  }
};

TEST(ToldFlag, IsRaisedUntilItIsLowered) {
  Flag one("one"), other("other");
  EXPECT_FALSE(one.raised());
  raise(one);
  EXPECT_TRUE(one.raised());
  EXPECT_FALSE(other.raised());
  EXPECT_FALSE(one.another_raised()) << "this is its own";
  one.lower();
  EXPECT_FALSE(one.raised());
  EXPECT_FALSE(other.another_raised());
}

TEST(ToldFlag, AnotherHearsOfItOnceAndItsOwnerKnowsStill) {
  Flag one("one"), other("other"), third("third");
  raise(one);
  EXPECT_TRUE(other.another_raised());
  EXPECT_EQ(other.hear_of_another().name, "one");
  EXPECT_FALSE(other.another_raised());
  EXPECT_FALSE(third.another_raised());
  EXPECT_EQ(third.hear_of_another().name, "");
  EXPECT_TRUE(one.raised());
  one.lower();
  raise(one);
  EXPECT_EQ(third.hear_of_another().name, "one") << "it stalled again";
}

TEST(ToldFlag, ThoseOfOneNameAreHeardOfTogether) {
  Flag rank_0("flow"), between("chain"), rank_1("flow"), other("other");
  for (auto const* const flag : {&rank_0, &between, &rank_1}) raise(*flag);
  EXPECT_EQ(other.hear_of_another().name, "flow");
  EXPECT_EQ(other.hear_of_another().name, "chain");
  EXPECT_EQ(other.hear_of_another().name, "");
  EXPECT_TRUE(rank_0.raised() && rank_1.raised());
}

TEST(ToldFlag, ThreadsThatHaveNotLaunchedItDoNotHear) {
  Flag one("one"), never("never launched", false);
  raise(one);
  raise(never);
  std::thread([] {
    Flag const elsewhere("elsewhere");
    EXPECT_FALSE(elsewhere.another_raised());
    EXPECT_EQ(elsewhere.hear_of_another().name, "");
  }).join();
  Flag const here("here");
  EXPECT_EQ(here.hear_of_another().name, "one");
  EXPECT_EQ(here.hear_of_another().name, "");
}

/// Nobody sees replays of its graph, all of which are wrong until its owner has made its memory right.
TEST(ToldFlag, OfOneInAGraphOthersHearUntilItsOwnerHasLoweredIt) {
  Flag one("one"), other("other");
  one.launched(true);
  raise(one);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(other.another_raised());
    auto const heard = other.hear_of_another();
    EXPECT_EQ(heard.name, "one");
    EXPECT_TRUE(heard.until_asked);
    EXPECT_NE(std::string(heard.way_out()).find("call its own finish()"), std::string::npos);
    one.launched();
  }
  one.lower();
  EXPECT_FALSE(other.another_raised());
  EXPECT_EQ(other.hear_of_another().name, "");
  raise(one);
  EXPECT_TRUE(other.hear_of_another().until_asked) << "its graph may still be replayed";
  one.lower();
}

TEST(ToldFlag, OfOneInAGraphThatIsGoneOthersHearOnceAndItsWordForgets) {
  Flag other("other");
  unsigned* word = nullptr;
  {
    Flag goes("goes");
    goes.launched(true);
    word = goes.address();
    raise(goes);
  }
  auto const heard = other.hear_of_another();
  EXPECT_EQ(heard.name, "goes");
  EXPECT_FALSE(heard.until_asked) << "nobody can be asked";
  EXPECT_FALSE(other.another_raised());
  Flag next("next");
  ASSERT_EQ(next.address(), word);
  raise(next);
  EXPECT_FALSE(other.hear_of_another().until_asked);
  next.lower();
}

TEST(ToldFlag, OfOneThatIsGoneIsHeardOfAndItsWordIsUsedAgain) {
  Flag const stays("stays");
  unsigned* word = nullptr;
  {
    Flag goes("goes");
    word = goes.address();
    raise(goes);
  }
  {
    Flag const next("next");
    EXPECT_NE(next.address(), word) << "nobody has heard of it";
    EXPECT_EQ(stays.hear_of_another().name, "goes");
  }
  Flag const one("one"), two("two");
  EXPECT_TRUE(one.address() == word || two.address() == word);
  EXPECT_FALSE(one.raised());
  EXPECT_FALSE(two.raised());
}

TEST(ToldFlag, ALeakedWordIsNobodysAgain) {
  unsigned* word = nullptr;
  {
    Flag spins("spins");
    word = spins.address();
    spins.leak();
  }
  std::vector<std::unique_ptr<Flag>> many;
  for (int i = 0; i < 3000; ++i) {
    many.push_back(std::make_unique<Flag>("one of many"));
    ASSERT_NE(many.back()->address(), word);
    ASSERT_FALSE(many.back()->raised());
  }
  raise(*many[2500]);
  EXPECT_TRUE(many.front()->another_raised()) << "in another page";
  EXPECT_EQ(many.front()->hear_of_another().name, "one of many");
}

}  // namespace
}  // namespace tessera::gpu
