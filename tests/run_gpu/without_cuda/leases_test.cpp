// SPDX-License-Identifier: Apache-2.0
// Which launches wait for which, with CUDA's calls replaced by some that say what they are told to.
#include "run/gpu/leases.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <thread>
#include <vector>

namespace {

struct Cuda {
  std::map<cudaEvent_t, cudaError_t> events;  // that are not there have ended
  std::vector<cudaEvent_t> waited_for;
  cudaError_t wait = cudaSuccess;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  bool asked_in_strict_mode = false;
};
Cuda cuda;

}  // namespace

extern "C" {
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (cuda.mode != cudaStreamCaptureModeRelaxed) cuda.asked_in_strict_mode = true;
  auto const known = cuda.events.find(event);
  return known == cuda.events.end() ? cudaSuccess : known->second;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t event, unsigned) {
  if (cuda.wait == cudaSuccess) cuda.waited_for.push_back(event);
  return cuda.wait;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, cuda.mode);
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
char const* cudaGetErrorName(cudaError_t) { return "cudaErrorStub"; }
char const* cudaGetErrorString(cudaError_t) { return "as the test likes"; }
}

namespace tessera::run {
namespace {

cudaEvent_t event(std::uintptr_t number) { return reinterpret_cast<cudaEvent_t>(number * 64); }
cudaStream_t stream(std::uintptr_t number) { return reinterpret_cast<cudaStream_t>(number * 64); }

/// Two of them do not fit on 132 SMs; `small` ones do.
struct Chain {
  Lease lease;
  cudaEvent_t done;
  Chain(std::uintptr_t number, bool small = false) : done(event(number)) {
    SmClaim claim;
    claim.held = small ? 20 : 100;
    claim.needed = small ? 10 : 40;
    lease.set(claim, 0, 132, done, "chain " + std::to_string(number));
  }
  ~Chain() { cuda.events.erase(done); }
  std::string launch(std::uintptr_t at, bool ends = false) {
    auto const turn = lease.take(stream(at), at);
    if (!turn) return turn.error().front().code;
    cuda.events[done] = ends ? cudaSuccess : cudaErrorNotReady;
    return "launched";
  }
};

class Leases : public testing::Test {
 protected:
  void SetUp() override { cuda = {}; }
  using Events = std::vector<cudaEvent_t>;
};

TEST_F(Leases, WhatDoesNotFitWaitsAndWhatFitsOrHasEndedDoesNot) {
  Chain a(1), b(2), small(3, true), other_small(4, true);
  EXPECT_EQ(a.launch(1), "launched");
  EXPECT_EQ(a.launch(1), "launched");
  EXPECT_EQ(cuda.waited_for, Events{});
  EXPECT_EQ(b.launch(2), "launched");
  EXPECT_EQ(cuda.waited_for, Events{a.done});
  cuda = {};
  EXPECT_EQ(a.launch(1), "launched");
  EXPECT_EQ(cuda.waited_for, Events{}) << "b has ended";
  cuda = {};
  EXPECT_EQ(small.launch(1), "launched");
  EXPECT_EQ(other_small.launch(2), "launched");
  EXPECT_EQ(cuda.waited_for, Events{});
}

TEST_F(Leases, BesideOneThatNeverEndsEveryCallIsRefused) {
  Chain a(1), b(2);
  EXPECT_EQ(a.launch(1), "launched");
  a.lease.never_ends(true);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(b.launch(2), "E0521") << "call " << i;
  a.lease.never_ends(false);
  EXPECT_EQ(b.launch(2), "launched");
  EXPECT_EQ(cuda.waited_for, Events{a.done});
}

TEST_F(Leases, AWaitThatFailedIsAskedForAgain) {
  Chain a(1), b(2);
  EXPECT_EQ(a.launch(1), "launched");
  cuda.wait = cudaErrorInvalidValue;
  for (int i = 0; i < 2; ++i) EXPECT_EQ(b.launch(2), "E0511") << "call " << i;
  cuda.wait = cudaSuccess;
  EXPECT_EQ(b.launch(2), "launched");
  EXPECT_EQ(cuda.waited_for, Events{a.done});
}

TEST_F(Leases, ARefusedLaunchHasNotMovedItsChainToAnotherStream) {
  Chain lost(1), small(2, true), c(3);
  EXPECT_EQ(small.launch(1), "launched");
  EXPECT_EQ(lost.launch(2), "launched");
  lost.lease.never_ends(true);
  cuda.waited_for.clear();
  Chain big(4);
  EXPECT_EQ(big.launch(5), "E0521");
  EXPECT_EQ(c.launch(1), "E0521");
  cuda.events.erase(lost.done);
  lost.lease.never_ends(false);
  // c was not launched in stream 1: nothing there is ordered behind it.
  EXPECT_EQ(c.launch(3), "launched");
  cuda.waited_for.clear();
  EXPECT_EQ(big.launch(1), "launched");
  EXPECT_EQ(cuda.waited_for, Events{c.done});
}

TEST_F(Leases, WhatCudaDoesNotSayToHaveEndedIsInFlight) {
  for (auto const error : {cudaErrorStreamCaptureUnsupported, cudaErrorStreamCaptureInvalidated}) {
    cuda = {};
    Chain a(1), b(2);
    EXPECT_EQ(a.launch(1), "launched");
    cuda.events[a.done] = error;
    EXPECT_EQ(b.launch(2), "launched");
    EXPECT_EQ(cuda.waited_for, Events{a.done});
    EXPECT_FALSE(cuda.asked_in_strict_mode) << "this makes other threads' captures invalid";
    EXPECT_EQ(cuda.mode, cudaStreamCaptureModeGlobal) << "the thread's mode is as it was";
  }
}

TEST_F(Leases, StreamsWithoutAnIdAreNotOneStream) {
  Chain a(1), b(2);
  {
    auto const turn = a.lease.take(stream(1), 0);
    ASSERT_TRUE(turn);
    cuda.events[a.done] = cudaErrorNotReady;
  }
  ASSERT_TRUE(b.lease.take(stream(2), 0));
  EXPECT_EQ(cuda.waited_for, Events{a.done});
}

TEST_F(Leases, TheCallersCodeMayLaunchAndDestroyChainsWhileItEnqueuesOne) {
  Chain a(1, true), inner(2, true);
  auto gone = std::make_unique<Chain>(4, true);
  EXPECT_EQ(gone->launch(1, true), "launched");
  auto const turn = a.lease.take(stream(1), 1);
  ASSERT_TRUE(turn);
  EXPECT_EQ(inner.launch(2), "launched");
  EXPECT_EQ(inner.launch(1), "launched");
  gone.reset();
}

TEST_F(Leases, WhatDoesNotFitBesideWhatTheSameThreadEnqueuesIsRefusedAndDoesNotHang) {
  Chain a(1), b(2);
  {
    auto const turn = a.lease.take(stream(1), 1);
    ASSERT_TRUE(turn);
    EXPECT_EQ(b.launch(2), "E0521");
    EXPECT_EQ(b.launch(1), "E0521") << "in the middle of the other launch";
    cuda.events[a.done] = cudaErrorNotReady;
  }
  EXPECT_EQ(b.launch(2), "launched");
  EXPECT_EQ(cuda.waited_for, Events{a.done});
}

TEST_F(Leases, AnotherThreadWaitsUntilItsEndIsKnown) {
  Chain a(1), b(2);
  std::future<std::string> other;
  {
    auto const turn = a.lease.take(stream(1), 1);
    ASSERT_TRUE(turn);
    other = std::async(std::launch::async, [&] { return b.launch(1); });
    // Too short a wait lets a wrong answer pass, and never fails a right one.
    EXPECT_EQ(other.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
    cuda.events[a.done] = cudaErrorNotReady;
  }
  EXPECT_EQ(other.get(), "launched");
  EXPECT_EQ(cuda.waited_for, Events{}) << "by then it is ordered by the stream";
}

}  // namespace
}  // namespace tessera::run
