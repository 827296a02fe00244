// SPDX-License-Identifier: Apache-2.0
// Stalls of something else: who hears of them and how often, and what they cost.
#include <gmock/gmock.h>

#include <optional>
#include <thread>

#include "run_gpu/faulty_chain.hpp"
#include "tessera/run/bindings.hpp"

namespace tessera {
namespace {

using testing::HasSubstr;
using vector_chain::Stream;

TEST(OtherStalls, AStallIsSaidOnceByWhatElseTheThreadLaunches) {
  Faulty first(Mechanism::pdl_tiles), second(Mechanism::stream_order);
  ASSERT_OK(first.chain);
  ASSERT_OK(second.chain);
  Stream stream, other;
  for (bool const by_finish : {false, true}) {
    SCOPED_TRACE(by_finish ? "finish()" : "launch()");
    *first.fault = Faulty::Fault::unposted;
    if (by_finish) ASSERT_OK(second.chain->launch(other));
    ASSERT_OK(first.chain->launch(stream));
    ASSERT_TRUE(comes_to_stall(*first.chain));
    *first.fault = Faulty::Fault::none;
    std::string in_another_thread;
    std::thread([&] {
      Faulty third(Mechanism::stream_order);
      Stream own;
      in_another_thread = said(third.chain->launch(own)) + ", " + said(third.chain->finish());
    }).join();
    EXPECT_EQ(in_another_thread, "accepted, accepted") << "it has nothing to do with this one";
    auto const found = by_finish ? said(second.chain->finish()) : said(second.chain->launch(other));
    EXPECT_THAT(found, HasSubstr("E0520: an earlier launch of "));
    EXPECT_FALSE(second.chain->stalled());
    second.expect_right(other);
    EXPECT_TRUE(first.chain->stalled()) << "its own memory is to be made right still";
    EXPECT_THAT(said(first.chain->launch(stream)), HasSubstr("E0520"));
    first.expect_right(stream);
    second.expect_right(other);
  }
}

TEST(OtherStalls, AStallOfAChainThatIsGoneIsNotForgotten) {
  Faulty stays(Mechanism::stream_order);
  ASSERT_OK(stays.chain);
  Stream stream;
  {
    Faulty goes(Mechanism::pdl_tiles);
    ASSERT_OK(goes.chain);
    *goes.fault = Faulty::Fault::unposted;
    ASSERT_OK(goes.chain->launch(stream));
    ASSERT_TRUE(comes_to_stall(*goes.chain));
  }
  EXPECT_THAT(said(stays.chain->launch(stream)), HasSubstr("E0520: an earlier launch of "));
  stays.expect_right(stream);
}

/// Replays of its graph are not seen, and are wrong until its memory has been made right: what else the
/// thread launches may read them, however often that has been said.
TEST(OtherStalls, AStallInTheCallersGraphIsSaidToOthersUntilItsOwnChainIsAsked) {
  Faulty first(Mechanism::pdl_tiles), second(Mechanism::stream_order);
  ASSERT_OK(first.chain);
  ASSERT_OK(second.chain);
  Stream stream, other;
  OwnGraph const good(*first.chain, stream);
  ASSERT_OK(good.launched);
  *first.fault = Faulty::Fault::unposted;
  OwnGraph const bad(*first.chain, stream);
  ASSERT_OK(bad.launched);
  *first.fault = Faulty::Fault::none;
  for (bool const by_finish : {false, true}) {
    SCOPED_TRACE(by_finish ? "finish()" : "launch()");
    auto const ask = [&] {
      return by_finish ? said(second.chain->finish()) : said(second.chain->launch(other));
    };
    ASSERT_EQ(cudaGraphLaunch(bad.executable, stream), cudaSuccess);
    ASSERT_TRUE(comes_to_stall(*first.chain));
    for (int i = 0; i < 2; ++i) {
      auto const found = ask();
      EXPECT_THAT(found, HasSubstr("E0520: an earlier launch of "));
      EXPECT_THAT(found, HasSubstr("call its own finish()"));
      // "Computed again", by a replay of which the library knows nothing.
      ASSERT_EQ(cudaGraphLaunch(good.executable, stream), cudaSuccess);
      ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    }
    EXPECT_THAT(ask(), HasSubstr("E0520: an earlier launch of ")) << "accepted behind a replay that gave up";
    EXPECT_THAT(said(first.chain->finish()), HasSubstr("E0520"));
    first.data.poison(stream);
    ASSERT_EQ(cudaGraphLaunch(good.executable, stream), cudaSuccess);
    first.data.compare(stream);
    EXPECT_EQ(ask(), "accepted");
    second.expect_right(other);
    ASSERT_OK(first.chain->finish());
    EXPECT_EQ(first.data.mismatches(), 0u);
  }
}

TEST(OtherStalls, BehindAnEnqueueThatFailedAStallOfAnotherIsSaidToo) {
  Faulty first(Mechanism::pdl_tiles), second(Mechanism::pdl_tiles);
  ASSERT_OK(first.chain);
  ASSERT_OK(second.chain);
  Stream stream, other;
  *second.fault = Faulty::Fault::refused;
  EXPECT_THAT(said(second.chain->launch(other)), HasSubstr("E0510"));
  *second.fault = Faulty::Fault::none;
  *first.fault = Faulty::Fault::unposted;
  ASSERT_OK(first.chain->launch(stream));
  ASSERT_TRUE(comes_to_stall(*first.chain));
  *first.fault = Faulty::Fault::none;
  EXPECT_THAT(said(second.chain->launch(other)), HasSubstr("E0520: an earlier launch of "));
  second.expect_right(other);
  EXPECT_THAT(said(first.chain->finish()), HasSubstr("E0520"));
  first.expect_right(stream);
}

TEST(OtherStalls, RestartsCountWhatCostsAChainItsMemoryAndNothingElse) {
  Scratch scratch;
  EXPECT_EQ(scratch.restarts(), 0u);
  auto const stalls = scratch.stalls();
  ASSERT_OK(stalls);
  Faulty mine(Mechanism::pdl_tiles, 0.05, *stalls), another(Mechanism::pdl_tiles);
  ASSERT_OK(mine.chain);
  ASSERT_OK(another.chain);
  Stream stream;
  mine.expect_right(stream);
  EXPECT_EQ(scratch.restarts(), 0u);
  *another.fault = Faulty::Fault::unposted;
  ASSERT_OK(another.chain->launch(stream));
  ASSERT_TRUE(comes_to_stall(*another.chain));
  EXPECT_THAT(said(scratch.nothing_else_stalled("a test")),
              HasSubstr("a test may have read what it did not"));
  EXPECT_EQ(said(scratch.nothing_else_stalled("a test")), "accepted") << "once";
  EXPECT_EQ(scratch.restarts(), 0u) << "a stall of something else";
  EXPECT_THAT(said(another.chain->finish()), HasSubstr("E0520"));
  *mine.fault = Faulty::Fault::unposted;
  ASSERT_OK(mine.chain->launch(stream));
  EXPECT_THAT(said(mine.chain->finish()), HasSubstr("E0520"));
  EXPECT_EQ(scratch.restarts(), 1u);
  *mine.fault = Faulty::Fault::refused;
  EXPECT_THAT(said(mine.chain->launch(stream)), HasSubstr("E0510"));
  EXPECT_EQ(scratch.restarts(), 2u);
  mine.expect_right(stream);
  EXPECT_EQ(scratch.restarts(), 2u);
}

/// Restored when it goes.
struct CurrentDevice {
  explicit CurrentDevice(int device) { EXPECT_EQ(cudaSetDevice(device), cudaSuccess); }
  ~CurrentDevice() { (void)cudaSetDevice(0); }
};

TEST(OtherStalls, AChainIsWaitedForOnItsOwnDeviceWhateverIsCurrent) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices < 2) GTEST_SKIP() << "needs two GPUs";
  std::optional<Faulty> faulty(std::in_place, Mechanism::pdl_tiles);
  ASSERT_OK(faulty->chain);
  Stream stream;
  vector_chain::spin(1, stream);
  OwnGraph const good(*faulty->chain, stream);
  ASSERT_OK(good.launched);
  *faulty->fault = Faulty::Fault::unposted;
  OwnGraph const bad(*faulty->chain, stream);
  ASSERT_OK(bad.launched);
  *faulty->fault = Faulty::Fault::none;
  vector_chain::spin(100, stream);
  ASSERT_EQ(cudaGraphLaunch(good.executable, stream), cudaSuccess);
  {
    CurrentDevice const other(1);
    ASSERT_OK(faulty->chain->finish());
    int current = -1;
    EXPECT_EQ(cudaGetDevice(&current), cudaSuccess);
    EXPECT_EQ(current, 1);
    EXPECT_THAT(said(faulty->chain->launch(nullptr)), HasSubstr("is on GPU 0, and GPU 1 is current"));
    EXPECT_THAT(said(faulty->chain->capture()), HasSubstr("E0511"));
    EXPECT_THAT(said(faulty->chain->replay(nullptr, [](GpuStream) { return 0; })), HasSubstr("E0511"));
  }
  EXPECT_EQ(cudaStreamQuery(stream), cudaSuccess) << "the replay has not ended";
  ASSERT_EQ(cudaGraphLaunch(bad.executable, stream), cudaSuccess);
  {
    CurrentDevice const other(1);
    EXPECT_THAT(said(faulty->chain->finish()), HasSubstr("E0520"));
  }
  faulty->expect_right(stream);
  vector_chain::spin(100, stream);
  ASSERT_EQ(cudaGraphLaunch(good.executable, stream), cudaSuccess);
  {
    CurrentDevice const other(1);
    { auto const gone = std::move(*faulty->chain); }
  }
  EXPECT_EQ(cudaStreamQuery(stream), cudaSuccess) << "its memory was freed under a replay";
}

}  // namespace
}  // namespace tessera
