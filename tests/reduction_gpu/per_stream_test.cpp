// SPDX-License-Identifier: Apache-2.0
// What one-call functions keep for each stream: two calls share it only if they are ordered.
#include "kernels/common/per_stream.hpp"

#include <gtest/gtest.h>

#include <string>

namespace tessera::kernels {
namespace {

cudaStream_t handle(std::uintptr_t number) { return reinterpret_cast<cudaStream_t>(number * 4096); }

StreamNow stream(std::uintptr_t number, unsigned long long id) {
  return {{0, handle(number), 0}, id, nullptr};
}
StreamNow thread(unsigned long long id) { return {{0, cudaStreamPerThread, id}, id, nullptr}; }
StreamNow capture(std::uintptr_t number, unsigned long long id) {
  return {{id, handle(number), 0}, 0, nullptr};
}

class PerStreamTest : public testing::Test {
 protected:
  int* at(StreamNow const& now, std::string const& rest = "") {
    int* value = nullptr;
    EXPECT_EQ(kept.find(now, rest, value), cudaSuccess);
    return value;
  }
  void SetUp() override {
    waits = 0;
    kept.wait_by(+[] {
      ++waits;
      return cudaSuccess;
    });
  }
  PerStream<std::string, int> kept;
  static inline int waits = 0;
};

TEST_F(PerStreamTest, IsFoundAgainByStreamAndRest) {
  int* const one = at(stream(1, 7), "a");
  EXPECT_EQ(at(stream(1, 7), "a"), one);
  EXPECT_NE(at(stream(1, 7), "b"), one);
  EXPECT_NE(at(stream(2, 8), "a"), one);
  EXPECT_EQ(at(stream(1, 7), "a"), one);
  EXPECT_EQ(waits, 0);
}

TEST_F(PerStreamTest, AHandleThatIsAnotherStreamsByNowIsTakenOverAfterWaiting) {
  int* const one = at(stream(1, 7));
  EXPECT_EQ(at(stream(1, 9)), one);
  EXPECT_EQ(waits, 1);
  EXPECT_EQ(at(stream(1, 9)), one);
  EXPECT_EQ(waits, 1);
  EXPECT_EQ(kept.size(), 1u) << "streams that come and go need no more memory";
}

TEST_F(PerStreamTest, ThreadsWithOneHandleHaveTheirOwn) {
  int* const one = at(thread(5));
  int* const other = at(thread(6));
  EXPECT_NE(one, other);
  EXPECT_EQ(at(thread(5)), one);
  EXPECT_EQ(waits, 0);
}

/// mlp(..., 0) and finish(cudaStreamLegacy) are of one stream.
TEST(StreamNames, TheDefaultStreamsTwoHandlesAreOne) {
  EXPECT_EQ(only_handle(nullptr), only_handle(cudaStreamLegacy));
  EXPECT_NE(only_handle(nullptr), only_handle(cudaStreamPerThread));
  EXPECT_EQ(only_handle(cudaStreamPerThread), cudaStreamPerThread);
  EXPECT_EQ(only_handle(handle(3)), handle(3));
}

TEST_F(PerStreamTest, AFailedWaitGivesNothing) {
  (void)at(stream(1, 7));
  kept.wait_by(+[] { return cudaErrorLaunchFailure; });
  int* value = nullptr;
  EXPECT_EQ(kept.find(stream(1, 9), "", value), cudaErrorLaunchFailure);
  EXPECT_EQ(value, nullptr);
}

TEST_F(PerStreamTest, ACaptureHasItsOwnUntilItsGraphIsGone) {
  int* const direct = at(stream(1, 7));
  int* const first = at(capture(1, 100));
  EXPECT_NE(first, direct);
  EXPECT_EQ(at(capture(1, 100)), first);
  EXPECT_NE(at(capture(2, 100)), first) << "a branch of the same capture";
  int* const second = at(capture(1, 101));
  EXPECT_NE(second, first);
  kept.ended("", capture(1, 100).place);
  EXPECT_EQ(at(capture(1, 101)), second);
  EXPECT_NE(at(capture(1, 102), "other"), first);
  EXPECT_EQ(at(capture(3, 103)), first) << "nobody else can use it any more";
  EXPECT_NE(at(capture(1, 104)), first);
}

TEST_F(PerStreamTest, AllAreVisitedAndCapturesAreTold) {
  *at(stream(1, 7), "a") = 1;
  *at(stream(2, 8), "b") = 2;
  *at(capture(1, 100), "a") = 3;
  int sum = 0, captured = 0;
  kept.for_all([&](std::string const&, int value, bool in_capture) {
    sum += value;
    captured += in_capture ? value : 0;
  });
  EXPECT_EQ(sum, 6);
  EXPECT_EQ(captured, 3);
}

}  // namespace
}  // namespace tessera::kernels
