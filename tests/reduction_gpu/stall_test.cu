// SPDX-License-Identifier: Apache-2.0
// Sums whose blocks gave up: what is said, and the launch after.
#include <gtest/gtest.h>

#include "data.hpp"
#include "gpu/device_buffer.hpp"
#include "kernels/reduction/sum.hpp"

namespace tessera::reduction {
namespace {

using gpu::DeviceBuffer;
using gpu::ok;

constexpr std::size_t k_count = 1 << 22;
constexpr Config k_config{Variant::data_token, Loads::vector, 256, 8, 128, 1};

std::string code_of(Expected<void> const& outcome) {
  return outcome ? "accepted" : outcome.error().front().code;
}

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
  DeviceBuffer<int> x{k_count}, out{1};
  DeviceBuffer<StallRecord> record{1};

  void SetUp() override { x.upload(std::vector<int>(k_count, 1)); }
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

}  // namespace
}  // namespace tessera::reduction
