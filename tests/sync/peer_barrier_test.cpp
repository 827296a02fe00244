// SPDX-License-Identifier: Apache-2.0
// The barriers among GPUs on CPU threads: each thread is a block of one thread, an array of words a GPU.
#include "tessera/sync/peer_barrier.cuh"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "support/fake_clock.hpp"
#include "support/real_clock.hpp"

namespace tessera {
namespace {

using Watch = support::RealWatch;

/// Words of some GPUs' blocks, and one record of stalls.
struct Host {
  Host(unsigned gpu_count, unsigned parties, unsigned block_count)
      : gpus(gpu_count),
        blocks(block_count),
        copies(gpu_count, std::vector<unsigned>(parties, 0)),
        arrived(gpu_count, 0) {
    memory.gpus = gpu_count;
    memory.parties = parties;
    for (unsigned gpu = 0; gpu < gpu_count; ++gpu) memory.at[gpu] = copies[gpu].data();
  }
  Watch watch() { return {&record, support::k_patience_ns}; }
  /// For what never comes.
  support::FakeWatch soon() { return {&record, 1000}; }

  unsigned gpus, blocks;
  std::vector<std::vector<unsigned>> copies;
  std::vector<unsigned> arrived;
  PeerWords memory;
  StallRecord record;
};

template <class Body>
void on_blocks(Host const& host, Body body) {
  std::vector<std::thread> threads;
  for (unsigned gpu = 0; gpu < host.gpus; ++gpu)
    for (unsigned block = 0; block < host.blocks; ++block)
      threads.emplace_back([&body, gpu, block] { body(gpu, block); });
  for (auto& thread : threads) thread.join();
}

// Every block writes its cell, meets the others, and reads all cells: plain memory, so that ThreadSanitizer
// sees a barrier that orders too little.
template <class MakeBarrier>
void count_rounds(Host const& host, unsigned rounds, MakeBarrier make) {
  std::vector<unsigned> cells(host.gpus * host.blocks, 0);
  std::atomic<unsigned> wrong{0};
  on_blocks(host, [&](unsigned gpu, unsigned block) {
    auto barrier = make(gpu, block);
    for (unsigned round = 1; round <= rounds; ++round) {
      cells[gpu * host.blocks + block] = round;
      if (!barrier.sync()) ++wrong;
      for (unsigned const cell : cells) wrong += cell != round;
      if (!barrier.sync()) ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0u);
}

TEST(PeerBarrier, EveryBlockOfEveryGpuIsAParty) {
  Host host(2, 4, 2);
  for (int launch = 0; launch < 3; ++launch)
    count_rounds(host, 15, [&](unsigned gpu, unsigned block) {
      return PeerBarrier<Watch>(host.memory, gpu, gpu * 2 + block, host.watch());
    });
  for (auto const& copy : host.copies) EXPECT_EQ(copy, std::vector<unsigned>(4, 90u));
  EXPECT_EQ(host.record.state, 0u);
}

TEST(PeerBarrier, AGpuIsAParty) {
  Host host(3, 3, 2);
  for (int launch = 0; launch < 3; ++launch)
    count_rounds(host, 15, [&](unsigned gpu, unsigned) {
      return PeerGridBarrier<Watch>(host.memory, {&host.arrived[gpu], 2}, gpu, host.watch());
    });
  for (auto const& copy : host.copies) EXPECT_EQ(copy, std::vector<unsigned>(3, 90u));
  EXPECT_EQ(host.arrived, std::vector<unsigned>(3, 180u));
}

TEST(PeerBarrier, EpochsWrap) {
  Host host(2, 2, 1);
  for (auto& copy : host.copies) copy = {0xFFFFFFFAu, 0xFFFFFFFAu};
  count_rounds(host, 10, [&](unsigned gpu, unsigned) {
    return PeerBarrier<Watch>(host.memory, gpu, gpu, host.watch());
  });
  EXPECT_EQ(host.copies[1], std::vector<unsigned>(2, 14u));
}

TEST(PeerBarrier, EpochsOfGpusWrapWithTheirCounters) {
  Host host(2, 2, 3);
  for (auto& copy : host.copies) copy = {0xFFFFFFFAu, 0xFFFFFFFAu};
  host.arrived = {3 * 0xFFFFFFFAu, 3 * 0xFFFFFFFAu};
  count_rounds(host, 10, [&](unsigned gpu, unsigned) {
    return PeerGridBarrier<Watch>(host.memory, {&host.arrived[gpu], 3}, gpu, host.watch());
  });
  EXPECT_EQ(host.copies[1], std::vector<unsigned>(2, 14u));
  EXPECT_EQ(host.arrived, std::vector<unsigned>(2, 42u));
}

TEST(PeerBarrier, NamesTheGpuThatIsMissing) {
  Host host(2, 2, 1);
  PeerBarrier<support::FakeWatch> barrier(host.memory, 0, 0, host.soon());
  EXPECT_FALSE(barrier.sync());
  EXPECT_EQ(host.record.state, 2u);
  EXPECT_EQ(host.record.tile, 0);
  EXPECT_EQ(host.record.semaphore, 1);
  EXPECT_EQ(host.record.seen, 0u);
  EXPECT_EQ(host.record.expected, 1u);
  EXPECT_GE(host.record.waited_ns, 1000u);
}

TEST(PeerBarrier, AMissingBlockKeepsItsGpuFromTheOthers) {
  Host host(2, 2, 2);
  PeerGridBarrier<support::FakeWatch> barrier(host.memory, {&host.arrived[0], 2}, 0, host.soon());
  EXPECT_FALSE(barrier.sync());
  EXPECT_EQ(host.record.state, 2u);
  EXPECT_EQ(host.record.semaphore, 0) << "its own GPU has not come";
  EXPECT_EQ(host.copies[1], std::vector<unsigned>(2, 0u));
}

TEST(PeerBarrier, ArrivingDoesNotWait) {
  Host host(2, 2, 2);
  PeerGridBarrier<Watch> first(host.memory, {&host.arrived[0], 2}, 0, host.watch());
  PeerGridBarrier<Watch> second(host.memory, {&host.arrived[0], 2}, 0, host.watch());
  PeerGridBarrier<Watch> peer(host.memory, {&host.arrived[1], 1}, 1, host.watch());
  first.arrive();
  EXPECT_EQ(host.copies[1][0], 0u) << "not before the GPU's last block";
  second.arrive();
  EXPECT_EQ(host.copies[1][0], 1u);
  peer.arrive();
  for (auto* barrier : {&first, &second, &peer}) EXPECT_TRUE(barrier->wait());
}

}  // namespace
}  // namespace tessera
