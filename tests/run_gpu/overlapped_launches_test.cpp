// SPDX-License-Identifier: Apache-2.0
// A chain of two stages, repeated as launches that overlap: right with injected delays, for a million
// iterations, and really overlapping.
#include <gmock/gmock.h>

#include <chrono>
#include <cstdio>

#include "gpu/launches.hpp"
#include "run_gpu/overlapped_data.hpp"
#include "support/assert_ok.hpp"
#include "tessera/run/device.hpp"

namespace tessera {
namespace {

using overlapped_tiles::Buffers;
using overlapped_tiles::Data;
using overlapped_tiles::OverlappedLoop;
using overlapped_tiles::Stamps;
using overlapped_tiles::two_stages;
using testing::HasSubstr;
using vector_chain::device_array;
using vector_chain::device_copy;
using vector_chain::Stream;

class OverlappedLaunches : public testing::Test {
 protected:
  void SetUp() override {
    auto here = with_device();
    ASSERT_TRUE(here) << to_text(here.error());
    machine = *here;
  }
  LoopPlan plan_of(int columns, int copies) const {
    auto plan = plan_loop_launches(two_stages(columns, copies), machine);
    if (!plan) throw std::runtime_error(to_text(plan.error()));
    return std::move(*plan);
  }
  static OverlappedLoop loop_of(LoopPlan const& plan, Buffers const& buffers,
                                ChainOptions const& options = {}) {
    auto loop = OverlappedLoop::make(plan, buffers, options);
    if (!loop) throw std::runtime_error(to_text(loop.error()));
    return std::move(*loop);
  }
  MachineProfile machine;
};

void expect_right(OverlappedLoop& loop, Data& data, std::vector<int> const& launches) {
  Stream const stream;
  for (int const iterations : launches) {
    ASSERT_OK(loop.launch(stream, iterations));
    ASSERT_OK(loop.finish());
    data.expect(iterations);
    ASSERT_EQ(data.found(iterations), data.expected()) << iterations << " iterations";
  }
}

TEST_F(OverlappedLaunches, AreRightForAnyNumberOfIterationsAndCopies) {
  for (int const copies : {1, 2})
    for (int const columns : {1, 4, 300}) {
      SCOPED_TRACE(testing::Message() << copies << " copies, " << columns << " columns");
      Data data(columns, copies);
      auto loop = loop_of(plan_of(columns, copies), data.buffers);
      expect_right(loop, data, {1, 2, 7, 1, 0, 1000, 10});
    }
}

TEST_F(OverlappedLaunches, AreRightWithMoreTilesThanFitOnTheGpu) {
  int const columns = 40 * machine.sms;
  for (int const copies : {1, 2}) {
    Data data(columns, copies);
    auto loop = loop_of(plan_of(columns, copies), data.buffers);
    expect_right(loop, data, {3, 50});
  }
}

TEST_F(OverlappedLaunches, LateTilesChangeNothing) {
  for (int const copies : {1, 2})
    for (unsigned const slow : {3u, 17u}) {
      Data data(40, copies);
      data.buffers.slow = slow;
      data.buffers.clocks = 20000;
      auto loop = loop_of(plan_of(40, copies), data.buffers);
      expect_right(loop, data, {10, 1, 300});
    }
}

TEST_F(OverlappedLaunches, OnePersistentLaunchOfTheSameTilesGivesTheSame) {
  Data data(40, 2);
  data.buffers.slow = 17;
  data.buffers.clocks = 20000;
  auto const plan = plan_loop(two_stages(40, 2), machine);
  ASSERT_TRUE(plan) << to_text(plan.error());
  auto loop = loop_of(*plan, data.buffers);
  expect_right(loop, data, {10, 1, 300});
  Stream const stream;
  auto graph = loop.capture(6);
  ASSERT_TRUE(graph) << to_text(graph.error());
  ASSERT_OK(graph->launch(stream));
  ASSERT_OK(loop.finish());
  data.expect(6);
  EXPECT_EQ(data.found(6), data.expected());
}

// The tests above can fail: without these waits a producer overwrites what late consumers have yet to read.
TEST_F(OverlappedLaunches, WithoutWaitsForReadersTheyAreWrong) {
  auto plan = plan_of(40, 1);
  ASSERT_FALSE(plan.plan.reuse_edges.empty() && plan.reuses.empty());
  plan.plan.reuse_edges.clear();
  plan.reuses.clear();
  Data data(40, 1);
  data.buffers.slow = 2;
  data.buffers.clocks = 60000;
  auto loop = loop_of(plan, data.buffers);
  Stream const stream;
  ASSERT_OK(loop.launch(stream, 100));
  ASSERT_OK(loop.finish());
  data.expect(100);
  EXPECT_NE(data.found(100), data.expected());
}

TEST_F(OverlappedLaunches, CapturedTheyAreRightInEveryReplay) {
  for (int const copies : {1, 2})
    for (int const iterations : {1, 7, 20}) {
      Data data(12, copies);
      data.buffers.slow = 23;
      data.buffers.clocks = 10000;
      auto loop = loop_of(plan_of(12, copies), data.buffers);
      auto graph = loop.capture(iterations);
      ASSERT_TRUE(graph) << to_text(graph.error());
      Stream const stream;
      for (int replay = 0; replay < 30; ++replay) {
        ASSERT_OK(graph->launch(stream));
        data.expect(iterations);
        // An odd number ends in the copy that the next replay does not begin with.
        if (iterations % 2 == 0 && replay % 2 == 0) continue;
        ASSERT_OK(loop.finish());
        ASSERT_EQ(data.found(iterations), data.expected()) << "replay " << replay << " of " << iterations;
      }
      // A launch between replays counts as they do.
      expect_right(loop, data, {3});
      ASSERT_OK(graph->launch(stream));
      ASSERT_OK(loop.finish());
      data.expect(iterations);
      EXPECT_EQ(data.found(iterations), data.expected());
    }
}

TEST_F(OverlappedLaunches, AnIterationStartsBeforeTheOneBeforeEnds) {
  int const iterations = 200;
  Stream const stream;
  for (int const copies : {1, 2})
    for (bool const captured : {false, true}) {
      SCOPED_TRACE(testing::Message() << copies << " copies" << (captured ? ", captured" : ""));
      std::vector<Stamps> stamps(2 * iterations);
      auto const on_device = device_copy(stamps);
      Data data(12, copies);
      data.buffers.stamps = on_device.get();
      data.buffers.slow = 6;
      data.buffers.clocks = 40000;
      auto loop = loop_of(plan_of(12, copies), data.buffers);
      if (captured) {
        auto graph = loop.capture(iterations);
        ASSERT_TRUE(graph) << to_text(graph.error());
        ASSERT_OK(graph->launch(stream));
        ASSERT_OK(loop.finish());
      } else {
        ASSERT_OK(loop.launch(stream, iterations));
        ASSERT_OK(loop.finish());
      }
      data.expect(iterations);
      EXPECT_EQ(data.found(iterations), data.expected());
      ASSERT_EQ(
          cudaMemcpy(stamps.data(), on_device.get(), stamps.size() * sizeof(Stamps), cudaMemcpyDeviceToHost),
          cudaSuccess);
      int started = 0, computed = 0, deepest = 0;
      for (int n = 0; n + 1 < iterations; ++n) {
        auto const ended = stamps[static_cast<std::size_t>(2 * n + 1)].ended;
        started += stamps[static_cast<std::size_t>(2 * n + 2)].began < ended;
        computed += stamps[static_cast<std::size_t>(2 * n + 2)].computed < ended;
        int deep = 0;
        while (2 * (n + deep + 1) < 2 * iterations &&
               stamps[static_cast<std::size_t>(2 * (n + deep + 1))].began < ended)
          ++deep;
        deepest = std::max(deepest, deep);
      }
      std::printf(
          "%d copies%s: of %d iterations %d start, %d compute before the one before has ended; at most %d "
          "have started then\n",
          copies, captured ? ", captured" : "", iterations - 1, started, computed, deepest);
      EXPECT_GT(started, iterations / 2);
      // With one copy a producer waits for all consumers of the iteration before.
      if (copies == 1)
        EXPECT_EQ(computed, 0);
      else
        EXPECT_GT(computed, iterations / 2);
    }
}

TEST_F(OverlappedLaunches, WaitForWhatWasEnqueuedBefore) {
  Data data(12, 2);
  auto loop = loop_of(plan_of(12, 2), data.buffers);
  std::vector<unsigned> start(data.values());
  for (std::size_t i = 0; i < start.size(); ++i) start[i] = static_cast<unsigned>(5 * i + 3);
  auto const source = device_copy(start);
  auto const result = device_array<unsigned>(data.values());
  std::vector<unsigned> found(data.values());
  Stream const stream;
  for (int i = 0; i < 20; ++i) {
    data.start_from(std::vector<unsigned>(data.values(), 0u));
    cudaDeviceSynchronize();
    // Late, and behind a trigger: the loop's first launch is there before it has written anything.
    overlapped_tiles::copy_late(data.buffers.hashes[1], source.get(), static_cast<int>(start.size()), 200000,
                                stream);
    ASSERT_OK(loop.launch(stream, 10));
    // What comes behind sees all of it.
    ASSERT_EQ(cudaMemcpyAsync(result.get(), data.buffers.hashes[1], start.size() * sizeof(unsigned),
                              cudaMemcpyDeviceToDevice, stream),
              cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    ASSERT_OK(loop.finish());
    ASSERT_EQ(cudaMemcpy(found.data(), result.get(), start.size() * sizeof(unsigned), cudaMemcpyDeviceToHost),
              cudaSuccess);
    Data reference(12, 2);
    reference.start_from(start);
    reference.expect(10);
    ASSERT_EQ(found, reference.expected());
  }
}

TEST_F(OverlappedLaunches, OnTwoStreamsFollowEachOther) {
  Data data(40, 2);
  data.buffers.slow = 17;
  data.buffers.clocks = 20000;
  auto loop = loop_of(plan_of(40, 2), data.buffers);
  Stream const streams[2];
  for (int i = 0; i < 40; ++i) {
    ASSERT_OK(loop.launch(streams[i % 2], 8));
    data.expect(8);
  }
  ASSERT_OK(loop.finish());
  EXPECT_EQ(data.found(8), data.expected());
}

TEST_F(OverlappedLaunches, AMissingPostIsNamedAndTheNextLaunchIsRight) {
  Data data(12, 2);
  auto const stop = device_copy(std::vector<int>{5});
  data.buffers.stop = stop.get();
  ChainOptions options;
  options.deadline_seconds = 0.05;
  auto loop = loop_of(plan_of(12, 2), data.buffers, options);
  auto graph = loop.capture(10);
  ASSERT_TRUE(graph) << to_text(graph.error());
  Stream const stream;
  for (bool const captured : {false, true}) {
    ASSERT_OK(captured ? graph->launch(stream) : loop.launch(stream, 10));
    auto const stalled = loop.finish();
    ASSERT_FALSE(stalled);
    EXPECT_EQ(stalled.error().front().code, "E0520");
  }
  int const never = -1;
  ASSERT_EQ(cudaMemcpy(stop.get(), &never, sizeof never, cudaMemcpyHostToDevice), cudaSuccess);
  data.start_from(data.expected());
  expect_right(loop, data, {10, 3});
  ASSERT_OK(graph->launch(stream));
  ASSERT_OK(loop.finish());
  data.expect(10);
  EXPECT_EQ(data.found(10), data.expected());
}

TEST_F(OverlappedLaunches, RefuseWhatCannotBeLaunched) {
  Data data(4, 1);
  auto const plan = plan_of(4, 1);
  auto loop = loop_of(plan, data.buffers);
  Stream const stream;
  auto const negative = loop.launch(stream, -1);
  ASSERT_FALSE(negative);
  EXPECT_THAT(to_text(negative.error()), HasSubstr("cannot have -1 iterations"));
  EXPECT_FALSE(loop.capture(-1));
  auto const functions = OverlappedLoop::with_one_function(plan);
  ASSERT_FALSE(functions);
  EXPECT_EQ(functions.error().front().code, "E0510");
  expect_right(loop, data, {2});
}

/// Replays of a graph of 1000 iterations, back to back.
void check_replays(LoopPlan const& plan, int copies, char const* form) {
  int const iterations = 1000, replays = gpu::launches(1000);
  Data data(4, copies);
  data.buffers.slow = 61;
  data.buffers.clocks = 5000;
  auto loop = OverlappedLoop::make(plan, data.buffers, {});
  ASSERT_TRUE(loop) << to_text(loop.error());
  auto graph = loop->capture(iterations);
  ASSERT_TRUE(graph) << to_text(graph.error());
  Stream const stream;
  double seconds = 0;
  for (int replay = 0; replay < replays;) {
    auto const since = std::chrono::steady_clock::now();
    int const together = std::min(100, replays - replay);
    for (int i = 0; i < together; ++i) ASSERT_OK(graph->launch(stream));
    ASSERT_OK(loop->finish());
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
    for (int i = 0; i < together; ++i) data.expect(iterations);
    replay += together;
    ASSERT_EQ(data.found(iterations), data.expected()) << "after " << replay << " replays";
  }
  std::printf("%s, %d copies: %d iterations, %.3f us each\n", form, copies, iterations * replays,
              1e6 * seconds / iterations / replays);
}

TEST_F(OverlappedLaunches, AMillionIterationsWithOneCopy) { check_replays(plan_of(4, 1), 1, "launches"); }
TEST_F(OverlappedLaunches, AMillionIterationsWithTwoCopies) {
  check_replays(plan_of(4, 2), 2, "launches");
  auto const persistent = plan_loop(two_stages(4, 2), machine);
  ASSERT_TRUE(persistent) << to_text(persistent.error());
  check_replays(*persistent, 2, "one persistent launch");
}

}  // namespace
}  // namespace tessera
