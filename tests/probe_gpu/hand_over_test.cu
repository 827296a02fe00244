// SPDX-License-Identifier: Apache-2.0
// The kernels of the probe's exchanges: every value arrives, and what is wrong, early or missing is found.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "measure/gpu/methods/device.hpp"
#include "measure/gpu/methods/hand_over_cluster.cuh"

namespace tessera::probe {
namespace {

constexpr int k_rounds = 200;

struct Outcome {
  unsigned wrong = 0, done = 0, stall = 0;
  unsigned long long chunks = 0;
  int shortest = 0;  ///< cycles
};

/// One launch of a kernel on every SM, with what its memory holds before.
class Rig {
 public:
  Rig() {
    ok(cudaGetDeviceProperties(&device_, 0));
    x.data = data.get();
    x.posts = words.get();
    x.read = words.get() + 256;
    x.done = words.get() + 512;
    x.wrong = words.get() + 513;
    x.spans = spans_.get();
    x.clock = clock_.get();
    x.rounds = k_rounds;
    stream.from = streamed_.get();
    stream.chunks = static_cast<unsigned>(streamed_.size() / k_stream_chunk);
    stream.done = x.done;
    stream.loaded = counts_.get();
    stream.begin_ns = counts_.get() + 1;
    stream.end_ns = counts_.get() + 2;
  }

  template <Carrier C, bool All>
  Outcome through_l2(unsigned long long deadline_ns = 50'000'000) {
    allow_shared(hand_over<C, All>, shared());
    launch({static_cast<unsigned>(device_.multiProcessorCount), threads, shared()}, nullptr,
           hand_over<C, All>, x, stream, DeadlineWatch<>{stall_.get(), deadline_ns});
    return outcome();
  }
  template <ClusterWay Way, bool All>
  Outcome through_cluster() {
    auto const size = static_cast<unsigned>(x.members);
    allow_shared(hand_over_cluster<Way, All>, shared());
    launch({4 * size, threads, shared(), size}, nullptr, hand_over_cluster<Way, All>, x, stream);
    return outcome();
  }

  int sms() const { return device_.multiProcessorCount; }

  HandOver x;
  MemoryStream stream;
  DeviceBuffer<uint4> data{1 << 16};
  DeviceBuffer<unsigned> words{1024};

 private:
  static constexpr unsigned threads = k_hand_threads + 32 * k_stream_warps;
  std::size_t shared() const { return device_.sharedMemPerBlockOptin - 4096; }
  Outcome outcome() {
    auto const seen = words.download();
    auto const spans = spans_.download();
    Outcome o;
    o.done = seen[512];
    o.wrong = seen[513];
    o.stall = stall_.download()[0].state;
    o.chunks = counts_.download()[0];
    o.shortest = spans[0];
    for (int i = 0; i < k_rounds / 2; ++i)
      o.shortest = std::min(o.shortest, spans[static_cast<std::size_t>(i)]);
    return o;
  }

  cudaDeviceProp device_{};
  DeviceBuffer<unsigned char> streamed_{std::size_t{256} << 20};
  DeviceBuffer<int> spans_{k_rounds};
  DeviceBuffer<unsigned long long> clock_{2}, counts_{3};
  DeviceBuffer<StallRecord> stall_{1};
};

void expect_right(Outcome const& o, int slots) {
  EXPECT_EQ(o.wrong, 0u);
  EXPECT_EQ(o.stall, 0u);
  EXPECT_EQ(o.done, 1u);
  EXPECT_GT(o.shortest, 0);
  if (slots > 0)
    EXPECT_GT(o.chunks, 100u);
  else
    EXPECT_EQ(o.chunks, 0u);
}

TEST(HandOver, EveryValueArrives) {
  for (int const slots : {0, 2})
    for (int const members : {2, 9, 132})
      for (int const share : {16, 48, 2048}) {
        SCOPED_TRACE(::testing::Message() << slots << " slots, " << members << " members, " << share);
        auto const run = [&](auto through) {
          Rig rig;
          rig.stream.slots = slots;
          rig.x.members = std::min(members, rig.sms());
          rig.x.share = share;
          rig.x.spread = 5;
          rig.x.shift = 7;
          expect_right(through(rig), slots);
        };
        run([](Rig& rig) { return rig.through_l2<Carrier::semaphore, false>(); });
        run([](Rig& rig) { return rig.through_l2<Carrier::words, false>(); });
        if (share > 48) continue;
        run([](Rig& rig) { return rig.through_l2<Carrier::semaphore, true>(); });
        run([](Rig& rig) { return rig.through_l2<Carrier::words, true>(); });
      }
}

TEST(HandOver, EveryValueArrivesInClusters) {
  for (int const slots : {0, 2})
    for (int const members : {2, 4, 8})
      for (int const share : {16, 48, 2048}) {
        SCOPED_TRACE(::testing::Message() << slots << " slots, " << members << " members, " << share);
        auto const run = [&](auto through) {
          Rig rig;
          rig.stream.slots = slots;
          rig.x.members = members;
          rig.x.share = share;
          rig.x.shift = 1;
          expect_right(through(rig), slots);
        };
        run([](Rig& rig) { return rig.through_cluster<ClusterWay::async, false>(); });
        run([](Rig& rig) { return rig.through_cluster<ClusterWay::async, true>(); });
        run([](Rig& rig) { return rig.through_cluster<ClusterWay::arrival, false>(); });
        run([](Rig& rig) { return rig.through_cluster<ClusterWay::arrival, true>(); });
      }
}

TEST(HandOver, ASemaphoreThatIsMetTooEarlyIsFound) {
  Rig rig;
  // The first sender's semaphore is one post ahead: member 1 reads what is not there yet.
  rig.words.upload([] {
    std::vector<unsigned> words(1024);
    words[0] = 1;
    return words;
  }());
  auto const o = rig.through_l2<Carrier::semaphore, false>();
  EXPECT_GT(o.wrong, 0u);
}

TEST(HandOver, AWordThatHoldsSomethingElseIsFound) {
  Rig rig;
  // Round 1 lies in copy 1, of two vectors: its token, and a wrong value.
  std::vector<uint4> data(1 << 16);
  for (std::size_t v = 2; v < 4; ++v) data[v] = {2u << 16, 2u << 16, 2u << 16, 2u << 16};
  rig.data.upload(data);
  rig.x.share = 16;
  // All blocks are member 1: nobody stores round 1, and round 3 is waited for in vain.
  rig.x.shift = 1;
  rig.x.spread = 0;
  auto const o = rig.through_l2<Carrier::words, false>(5'000'000);
  EXPECT_GT(o.wrong, 0u);
  EXPECT_EQ(o.stall, 2u);
}

TEST(HandOver, AWaitThatIsNeverMetEndsAndSoDoesTheStream) {
  Rig rig;
  rig.stream.slots = 2;
  rig.words.upload([] {
    std::vector<unsigned> words(1024);
    words[1] = 0u - 1000u;  // so many posts are missing
    return words;
  }());
  auto const o = rig.through_l2<Carrier::semaphore, false>(5'000'000);
  EXPECT_EQ(o.stall, 2u);
  EXPECT_EQ(o.done, 1u);
  EXPECT_EQ(o.wrong, 0u);
}

}  // namespace
}  // namespace tessera::probe
