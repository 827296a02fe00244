// SPDX-License-Identifier: Apache-2.0
// Sums whose blocks gave up: what is said, and the launch after.
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "data.hpp"
#include "gpu/device_buffer.hpp"
#include "kernels/reduction/one_call.hpp"
#include "kernels/reduction/sum.hpp"

namespace tessera::reduction {
namespace {

using gpu::DeviceBuffer;
using gpu::ok;

constexpr std::size_t k_count = 1 << 24;  // more than the L2 holds
constexpr Config k_config{Variant::data_token, Loads::vector, 256, 8, 128, 1};

std::string code_of(Expected<void> const& outcome) {
  return outcome ? "accepted" : outcome.error().front().code;
}

/// Ones in host memory, which blocks read over the bus, each in another time: the last one waits for others
/// for microseconds. A watch looks at its clock so rarely that blocks which read device memory are done
/// before.
class SlowOnes {
 public:
  SlowOnes() {
    ok(cudaMallocHost(&at_, k_count * sizeof(int)));
    for (std::size_t i = 0; i < k_count; ++i) at_[i] = 1;
  }
  ~SlowOnes() { cudaFreeHost(at_); }
  SlowOnes(SlowOnes const&) = delete;
  SlowOnes& operator=(SlowOnes const&) = delete;
  int const* get() const { return at_; }

 private:
  int* at_ = nullptr;
};

class SumStall : public testing::Test {
 protected:
  Expected<void> launch(DeadlineWatch<> const& watch = {}) {
    return sum.launch(Element::int32, x.get(), k_count, out.get(), nullptr, k_config, {}, watch);
  }
  /// The last block gives up whenever it comes before another.
  void stall() {
    for (int i = 0; i < 1000 && !sum.stalled(); ++i) {
      ASSERT_EQ(code_of(launch()), "accepted");
      ok(cudaDeviceSynchronize());
    }
    ASSERT_TRUE(sum.stalled());
  }
  /// With a deadline of its own: in the words that the stall left.
  void expect_right() {
    out.fill(0);
    ASSERT_EQ(code_of(launch({record.get(), 1'000'000'000})), "accepted");
    EXPECT_EQ(out.download().front(), static_cast<int>(k_count));
    EXPECT_EQ(record.download().front().state, 0u);
  }

  Sum sum = Sum::make(1e-9).value();
  SlowOnes x;
  DeviceBuffer<int> out{1};
  DeviceBuffer<StallRecord> record{1};
};

TEST_F(SumStall, IsSaidByTheNextLaunchAndTheOneAfterIsRight) {
  for (int round = 0; round < 3; ++round) {
    stall();
    EXPECT_EQ(code_of(launch()), "E0552");
    EXPECT_FALSE(sum.stalled());
    expect_right();
  }
}

TEST_F(SumStall, IsSaidByFinish) {
  stall();
  EXPECT_EQ(code_of(sum.finish(nullptr)), "E0552");
  EXPECT_EQ(code_of(sum.finish(nullptr)), "accepted");
  expect_right();
}

TEST_F(SumStall, IsSaidInACaptureAndStays) {
  stall();
  cudaStream_t stream = nullptr;
  ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  auto const captured = sum.launch(x.get(), k_count, out.get(), stream);
  cudaGraph_t graph = nullptr;
  ok(cudaStreamEndCapture(stream, &graph));
  ok(cudaGraphDestroy(graph));
  EXPECT_EQ(code_of(captured), "E0552");
  EXPECT_EQ(code_of(sum.finish(stream)), "E0552");
  expect_right();
  ok(cudaStreamDestroy(stream));
}

TEST_F(SumStall, OfAWatchOfTheCallersIsTheCallersAffair) {
  for (int i = 0; i < 1000 && record.download().front().state == 0; ++i)
    ASSERT_EQ(code_of(launch({record.get(), 1})), "accepted");
  ASSERT_NE(record.download().front().state, 0u);
  EXPECT_FALSE(sum.stalled());
  ok(sum.reset(nullptr));
  record.fill(0);
  ok(cudaDeviceSynchronize());
  expect_right();
}

/// sum() in a thread whose own default stream nothing else uses: in one call, or in a graph of one.
class SumOneCallStall : public testing::Test {
 protected:
  SumOneCallStall() { deadline_of_new_sums(1e-9); }
  ~SumOneCallStall() override { deadline_of_new_sums(Sum::default_deadline_seconds); }
  /// The last block gives up whenever it comes before another: with so short a deadline in some of these.
  template <class Launch>
  std::string until_finish_says_so(cudaStream_t stream, Launch const& launch) {
    for (int i = 0; i < 1000; ++i) {
      launch();
      if (auto const found = code_of(finish(stream)); found != "accepted") return found;
    }
    return "never";
  }
  void expect_right_with_time(cudaStream_t stream) {
    deadline_of_new_sums(Sum::default_deadline_seconds);
    out.fill(0);
    EXPECT_EQ(code_of(sum(x.get(), k_count, out.get(), stream)), "accepted");
    EXPECT_EQ(code_of(finish(stream)), "accepted");
    EXPECT_EQ(out.download().front(), static_cast<int>(k_count));
    deadline_of_new_sums(1e-9);
  }

  SlowOnes x;
  DeviceBuffer<int> out{1};
};

TEST_F(SumOneCallStall, IsSaidByFinishOrByTheNextCall) {
  std::thread([&] {
    auto const stream = cudaStreamPerThread;
    for (int round = 0; round < 3; ++round) {
      EXPECT_EQ(until_finish_says_so(stream, [&] { (void)sum(x.get(), k_count, out.get(), stream); }),
                "E0552");
      EXPECT_EQ(code_of(finish(stream)), "accepted") << "it has been said";
    }
    std::string found = "accepted";
    for (int i = 0; i < 1000 && found == "accepted"; ++i) {
      found = code_of(sum(x.get(), k_count, out.get(), stream));
      ok(cudaStreamSynchronize(stream));
    }
    EXPECT_EQ(found, "E0552");
    expect_right_with_time(stream);
    (void)finish(stream);
  }).join();
}

TEST_F(SumOneCallStall, OfAReplayIsSaidByFinishAndInTheNextCapture) {
  cudaStream_t stream = nullptr;
  ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  auto const capture = [&](cudaGraph_t& graph) {
    ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    auto const called = code_of(sum(x.get(), k_count, out.get(), stream));
    ok(cudaStreamEndCapture(stream, &graph));
    return called;
  };
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(capture(graph), "accepted");
  ok(cudaGraphInstantiate(&executable, graph, 0));
  auto const replay = [&] { ok(cudaGraphLaunch(executable, stream)); };
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(until_finish_says_so(stream, replay), "E0552");
    EXPECT_EQ(code_of(finish(stream)), "accepted") << "it has been said";
  }
  expect_right_with_time(stream);
  // Its memory goes to the next capture, with a stall that nobody has heard of.
  std::string next = "accepted";
  for (int i = 0; i < 200 && next == "accepted"; ++i) {
    for (int n = 0; n < 20; ++n) replay();
    ok(cudaStreamSynchronize(stream));
    ok(cudaGraphExecDestroy(executable));
    ok(cudaGraphDestroy(graph));
    next = capture(graph);
    ok(cudaGraphInstantiate(&executable, graph, 0));
  }
  EXPECT_EQ(next, "E0552");
  EXPECT_EQ(code_of(finish(stream)), "E0552");
  EXPECT_EQ(code_of(finish(stream)), "accepted");
  ok(cudaGraphExecDestroy(executable));
  ok(cudaGraphDestroy(graph));
  ok(cudaStreamDestroy(stream));
}

TEST_F(SumStall, IsSaidOnceByAnotherSumOfTheThread) {
  stall();
  Sum other = Sum::make().value();
  auto const launched = [&] { return code_of(other.launch(x.get(), k_count, out.get(), nullptr)); };
  EXPECT_EQ(launched(), "E0520");
  EXPECT_EQ(launched(), "accepted");
  EXPECT_EQ(code_of(other.finish(nullptr)), "accepted");
  EXPECT_EQ(out.download().front(), static_cast<int>(k_count));
  EXPECT_TRUE(sum.stalled());
  EXPECT_EQ(code_of(launch()), "E0552") << "its own words are to be zeroed still";
  expect_right();
}

}  // namespace
}  // namespace tessera::reduction
