// SPDX-License-Identifier: Apache-2.0
// After a stall, an enqueue that failed or an exception: what the next call says, and that the one after it
// is right.
#include <gmock/gmock.h>

#include <chrono>

#include "run_gpu/faulty_chain.hpp"

namespace tessera {
namespace {

using support::Policy;
using testing::HasSubstr;
using vector_chain::DeviceData;
using vector_chain::Kind;
using vector_chain::Stream;

constexpr Mechanism k_waiting[] = {Mechanism::pdl_tiles, Mechanism::wait_kernel, Mechanism::fused};

TEST(Recovery, AStallIsSeenWithoutWaitingAndTheNextLaunchSaysSo) {
  for (auto const mechanism : k_waiting) {
    SCOPED_TRACE(to_text(mechanism));
    Faulty faulty(mechanism);
    ASSERT_OK(faulty.chain);
    Stream stream;
    for (int round = 0; round < 2; ++round) {
      EXPECT_FALSE(faulty.chain->stalled());
      *faulty.fault = Faulty::Fault::unposted;
      ASSERT_OK(faulty.chain->launch(stream));
      ASSERT_TRUE(comes_to_stall(*faulty.chain));
      EXPECT_THAT(said(faulty.chain->timeline()), HasSubstr("E0520"));
      *faulty.fault = Faulty::Fault::none;
      auto const refused = said(faulty.chain->launch(stream));
      EXPECT_THAT(refused, HasSubstr("E0520"));
      EXPECT_THAT(refused, HasSubstr("found when the next launch was asked for, which was not enqueued"));
      EXPECT_FALSE(faulty.chain->stalled());
      faulty.expect_right(stream);
    }
  }
}

TEST(Recovery, AGraphOfAChainThatStalledIsRefusedOnceAndThenRight) {
  Faulty faulty(Mechanism::pdl_tiles);
  ASSERT_OK(faulty.chain);
  auto graph = faulty.chain->capture();
  ASSERT_OK(graph);
  Stream stream;
  *faulty.fault = Faulty::Fault::unposted;
  ASSERT_OK(faulty.chain->launch(stream));
  ASSERT_TRUE(comes_to_stall(*faulty.chain));
  EXPECT_THAT(said(graph->launch(stream)), HasSubstr("E0520"));
  faulty.data.poison(stream);
  ASSERT_OK(graph->launch(stream));
  faulty.data.compare(stream);
  ASSERT_OK(faulty.chain->finish());
  EXPECT_EQ(faulty.data.mismatches(), 0u);
}

TEST(Recovery, FinishWaitsForReplaysOfTheCallersGraph) {
  Faulty faulty(Mechanism::pdl_tiles);
  ASSERT_OK(faulty.chain);
  Stream stream;
  vector_chain::spin(1, stream);  // loads the kernel
  OwnGraph const graph(*faulty.chain, stream);
  ASSERT_OK(graph.launched);
  faulty.data.poison(stream);
  vector_chain::spin(100, stream);
  ASSERT_EQ(cudaGraphLaunch(graph.executable, stream), cudaSuccess);
  ASSERT_OK(faulty.chain->finish());
  EXPECT_EQ(cudaStreamQuery(stream), cudaSuccess) << "the replay has not ended";
  faulty.data.compare(stream);
  EXPECT_EQ(faulty.data.mismatches(), 0u);
}

TEST(Recovery, AStallInAReplayOfTheCallersGraphIsSaid) {
  for (bool const by_finish : {false, true}) {
    Faulty faulty(Mechanism::pdl_tiles);
    ASSERT_OK(faulty.chain);
    Stream stream;
    OwnGraph const good(*faulty.chain, stream);
    ASSERT_OK(good.launched);
    *faulty.fault = Faulty::Fault::unposted;
    OwnGraph const bad(*faulty.chain, stream);
    ASSERT_OK(bad.launched);
    *faulty.fault = Faulty::Fault::none;
    for (int i = 0; i < 3; ++i) ASSERT_EQ(cudaGraphLaunch(bad.executable, stream), cudaSuccess);
    if (by_finish) {
      EXPECT_THAT(said(faulty.chain->finish()), HasSubstr("E0520"));
    } else {
      ASSERT_TRUE(comes_to_stall(*faulty.chain));
      EXPECT_THAT(said(faulty.chain->launch(stream)), HasSubstr("E0520"));
    }
    faulty.data.poison(stream);
    ASSERT_EQ(cudaGraphLaunch(good.executable, stream), cudaSuccess);
    faulty.data.compare(stream);
    ASSERT_OK(faulty.chain->finish());
    EXPECT_EQ(faulty.data.mismatches(), 0u);
    faulty.expect_right(stream);
  }
}

TEST(Recovery, AStallIsSaidBeforeTheCallersGraphIsReplayed) {
  Faulty faulty(Mechanism::pdl_tiles);
  ASSERT_OK(faulty.chain);
  Stream stream;
  OwnGraph const good(*faulty.chain, stream);
  *faulty.fault = Faulty::Fault::unposted;
  OwnGraph const bad(*faulty.chain, stream);
  *faulty.fault = Faulty::Fault::none;
  int asked = 0;
  auto const replay = [&](OwnGraph const& graph) {
    return faulty.chain->replay(stream, [&](GpuStream in) {
      ++asked;
      return static_cast<int>(cudaGraphLaunch(graph.executable, in));
    });
  };
  ASSERT_OK(replay(bad));
  ASSERT_TRUE(comes_to_stall(*faulty.chain));
  EXPECT_THAT(said(replay(good)), HasSubstr("E0520"));
  EXPECT_EQ(asked, 1) << "a graph was launched behind a stall";
  faulty.data.poison(stream);
  ASSERT_OK(replay(good));
  faulty.data.compare(stream);
  ASSERT_OK(faulty.chain->finish());
  EXPECT_EQ(faulty.data.mismatches(), 0u);
  auto const failing = [](GpuStream) { return static_cast<int>(cudaErrorInvalidValue); };
  EXPECT_THAT(said(faulty.chain->replay(stream, failing)), HasSubstr("E0511"));
  faulty.expect_right(stream);
  auto const throwing = [&](GpuStream in) -> int {
    EXPECT_EQ(cudaGraphLaunch(good.executable, in), cudaSuccess);
    throw std::runtime_error("behind a graph that was launched");
  };
  EXPECT_THROW((void)faulty.chain->replay(stream, throwing), std::runtime_error);
  faulty.expect_right(stream);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_THAT(said(replay(good)), HasSubstr("E0511"));
  cudaGraph_t nothing = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream, &nothing), cudaSuccess);
  cudaGraphDestroy(nothing);
}

TEST(Recovery, AnErrorOrAnExceptionInAnEnqueueLeavesNothingBehind) {
  for (auto const mechanism : {Mechanism::stream_order, Mechanism::pdl_tiles, Mechanism::wait_kernel})
    for (auto const fault : {Faulty::Fault::refused, Faulty::Fault::thrown}) {
      SCOPED_TRACE(std::string(to_text(mechanism)) + (fault == Faulty::Fault::thrown ? ", thrown" : ""));
      Faulty faulty(mechanism);
      ASSERT_OK(faulty.chain);
      auto graph = faulty.chain->capture();
      ASSERT_OK(graph);
      Stream stream, other;
      for (int round = 0; round < 2; ++round) {
        *faulty.fault = fault;
        if (fault == Faulty::Fault::thrown) {
          EXPECT_THROW((void)faulty.chain->launch(stream), std::runtime_error);
          EXPECT_THROW((void)faulty.chain->capture(), std::runtime_error);
        } else {
          EXPECT_THAT(said(faulty.chain->launch(stream)), HasSubstr("E0510"));
          EXPECT_THAT(said(faulty.chain->capture()), HasSubstr("E0510"));
        }
        *faulty.fault = Faulty::Fault::none;
        // At once, and in another stream: what was enqueued of the launch before still runs.
        if (round == 0) {
          faulty.expect_right(other);
        } else {
          ASSERT_OK(graph->launch(other));
          faulty.expect_right(other);
        }
      }
    }
}

TEST(Recovery, ACaptureWithHalfALaunchIsNoGraph) {
  for (auto const mechanism : {Mechanism::pdl_tiles, Mechanism::wait_kernel}) {
    SCOPED_TRACE(to_text(mechanism));
    Faulty faulty(mechanism);
    ASSERT_OK(faulty.chain);
    Stream stream;
    *faulty.fault = Faulty::Fault::refused;
    {
      OwnGraph const graph(*faulty.chain, stream);
      EXPECT_THAT(said(graph.launched), HasSubstr("E0510"));
      EXPECT_NE(graph.ended, cudaSuccess);
      EXPECT_EQ(graph.executable, nullptr);
    }
    faulty.expect_right(stream);
  }
}

TEST(Recovery, DataTokensStartAnewWithTheirChain) {
  Faulty faulty(Mechanism::pdl_tiles);
  ASSERT_OK(faulty.chain);
  Stream stream;
  auto* const tokens = faulty.chain->views().tokens;
  std::vector<unsigned> words(1024, ~0u);
  ASSERT_EQ(cudaMemcpy(words.data(), tokens, 4096, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_THAT(words, testing::Each(0u));
  ASSERT_EQ(cudaMemset(tokens, 0xFF, 4096), cudaSuccess);
  faulty.expect_right(stream);
  ASSERT_EQ(cudaMemcpy(words.data(), tokens, 4096, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_THAT(words, testing::Each(~0u)) << "nothing had gone wrong";
  *faulty.fault = Faulty::Fault::unposted;
  ASSERT_OK(faulty.chain->launch(stream));
  EXPECT_THAT(said(faulty.chain->finish()), HasSubstr("E0520"));
  ASSERT_EQ(cudaMemcpy(words.data(), tokens, 4096, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_THAT(words, testing::Each(0u));
}

/// What a capture of a launch, with nothing replayed, comes to.
std::string captured(Chain& chain, cudaStream_t stream, cudaStreamCaptureMode mode, cudaError_t& ended) {
  EXPECT_EQ(cudaStreamBeginCapture(stream, mode), cudaSuccess);
  auto const outcome = said(chain.launch(stream));
  cudaGraph_t graph = nullptr;
  ended = cudaStreamEndCapture(stream, &graph);
  if (graph != nullptr) cudaGraphDestroy(graph);
  (void)cudaGetLastError();
  return outcome;
}

TEST(Recovery, AfterAStallACaptureIsRefusedUntilFinishAndStaysValid) {
  for (auto const mode : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal})
    for (bool const captured_before : {true, false}) {
      SCOPED_TRACE(testing::Message() << "mode " << mode << ", captured before " << captured_before);
      Faulty faulty(Mechanism::pdl_tiles);
      ASSERT_OK(faulty.chain);
      Stream stream;
      auto ended = cudaSuccess;
      if (captured_before) {
        ASSERT_EQ(captured(*faulty.chain, stream, mode, ended), "accepted");
        ASSERT_EQ(ended, cudaSuccess);
      }
      *faulty.fault = Faulty::Fault::unposted;
      ASSERT_OK(faulty.chain->launch(stream));
      ASSERT_TRUE(comes_to_stall(*faulty.chain));
      *faulty.fault = Faulty::Fault::none;
      for (int i = 0; i < 2; ++i) {
        auto const refused = captured(*faulty.chain, stream, mode, ended);
        EXPECT_THAT(refused, HasSubstr("E0520"));
        EXPECT_THAT(refused, HasSubstr("call finish() when the capture has ended"));
        EXPECT_EQ(ended, cudaSuccess) << "the caller's capture is as it was";
        EXPECT_TRUE(faulty.chain->stalled()) << "nothing has been recovered";
      }
      EXPECT_THAT(said(faulty.chain->finish()), HasSubstr("E0520"));
      EXPECT_EQ(captured(*faulty.chain, stream, mode, ended), "accepted");
      EXPECT_EQ(ended, cudaSuccess);
      OwnGraph const graph(*faulty.chain, stream);
      ASSERT_OK(graph.launched);
      faulty.data.poison(stream);
      ASSERT_EQ(cudaGraphLaunch(graph.executable, stream), cudaSuccess);
      faulty.data.compare(stream);
      ASSERT_OK(faulty.chain->finish());
      EXPECT_EQ(faulty.data.mismatches(), 0u);
      faulty.expect_right(stream);
    }
}

TEST(Recovery, AChainsGraphInACaptureIsRefusedAndSpoilsNothing) {
  Faulty faulty(Mechanism::pdl_tiles);
  ASSERT_OK(faulty.chain);
  auto part = faulty.chain->capture();
  ASSERT_OK(part);
  Stream stream;
  ASSERT_OK(part->launch(stream));
  ASSERT_OK(faulty.chain->finish());
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_THAT(said(part->launch(stream)), HasSubstr("call Chain::launch() there"));
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  std::size_t nodes = 1;
  ASSERT_EQ(cudaGraphGetNodes(graph, nullptr, &nodes), cudaSuccess);
  EXPECT_EQ(nodes, 0u);
  ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  ASSERT_OK(part->launch(stream));
  ASSERT_OK(faulty.chain->finish());
  faulty.expect_right(stream);
}

/// Two stages, of which the first is busy for so long before it counts anything, and its launch is the first
/// since all have ended.
struct BusyFirst {
  Plan plan;
  DeviceData data;
  Expected<Chain> chain;

  explicit BusyFirst(int milliseconds)
      : plan(support::make_plan(vector_chain::pipeline(2, 24, 20, 1), machine("h200").value(),
                                Mechanism::pdl_tiles, Policy::row_sync)),
        data(plan.pipeline, 43),
        chain(make(milliseconds)) {}

  Expected<Chain> make(int milliseconds) {
    auto kernels = vector_chain::kernels(plan, data.buffers(), Kind::watched);
    vector_chain::spin_before_first(kernels, plan, milliseconds);
    ChainOptions o;
    o.deadline_seconds = k_deadline_s;
    return Chain::make(plan, kernels, o);
  }
  static constexpr double k_deadline_s = 0.02;
};

TEST(Recovery, ALaunchThatIsBusyBeforeItCountsIsSaidNotToEnd) {
  for (bool const by_timeline : {false, true}) {
    SCOPED_TRACE(by_timeline ? "timeline()" : "finish()");
    BusyFirst busy(1500);
    ASSERT_OK(busy.chain);
    Stream stream;
    vector_chain::spin(1, stream);  // loads it
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    for (int round = 0; round < 2; ++round) {
      auto const begin = std::chrono::steady_clock::now();
      // What is queued before does not count.
      vector_chain::spin(400, stream);
      ASSERT_OK(busy.chain->launch(stream));
      auto const outcome = by_timeline ? said(busy.chain->timeline()) : said(busy.chain->finish());
      auto const seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      EXPECT_THAT(outcome, HasSubstr("E0521"));
      EXPECT_GT(seconds, 0.4 + 10 * BusyFirst::k_deadline_s - 0.01);
      EXPECT_THAT(said(busy.chain->launch(stream)), HasSubstr("E0521"));
      busy.data.compare(stream);
      ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
      EXPECT_EQ(said(busy.chain->finish()), "accepted") << "it has ended after all";
      EXPECT_EQ(busy.data.mismatches(), 0u);
    }
  }
}

TEST(Recovery, AChainThatIsDestroyedWhileItsLaunchIsBusyDoesNotHang) {
  Stream stream;
  vector_chain::spin(1, stream);
  {
    BusyFirst busy(1500);
    ASSERT_OK(busy.chain);
    ASSERT_OK(busy.chain->launch(stream));
    auto const begin = std::chrono::steady_clock::now();
    { auto const gone = std::move(busy.chain); }
    auto const seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    EXPECT_LT(seconds, 1.4) << "it is given up before its kernel ends";
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess) << "its memory is there still";
  }
}

}  // namespace
}  // namespace tessera
