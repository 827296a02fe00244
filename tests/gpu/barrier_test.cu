// SPDX-License-Identifier: Apache-2.0
// The barriers on a GPU: every block's threads write, meet, and read what threads of another block wrote, a
// hundred thousand times; and a block that never comes is named within the deadline.
#include "tessera/sync/barrier.cuh"

#include <gtest/gtest.h>

#include <cstdlib>

#include "gpu/device_buffer.hpp"
#include "gpu/launch.hpp"
#include "launches.hpp"

namespace tessera::gpu {
namespace {

constexpr unsigned k_threads = 256;
constexpr unsigned k_rounds = 100'000;

using Watch = DeadlineWatch<>;

enum class Kind { whole, split, clusters, neighbours };

__device__ unsigned mixed(unsigned round, unsigned block, unsigned thread) {
  return round * 0x9E3779B9u ^ block << 16 ^ thread;
}

/// Two buffers by turns: who is one barrier ahead writes to the other one. `missing`: a block that leaves at
/// once.
template <Kind K>
__global__ void rounds(BarrierWords memory, Watch watch, unsigned* data, unsigned count, unsigned missing,
                       unsigned* wrong, unsigned* gave_up) {
  unsigned const block = blockIdx.x, blocks = gridDim.x, thread = threadIdx.x;
  constexpr unsigned size = K == Kind::clusters ? 2 : 1;
  if (block / size == missing) return;
  using Barrier = std::conditional_t<K == Kind::neighbours, EpochBarrier<Watch>,
                                     GridBarrier<Watch, K == Kind::clusters ? Party::cluster : Party::block>>;
  Barrier barrier(memory, block / size, watch);
  unsigned bad = 0;
  bool ok = true;
  for (unsigned round = 1; round <= count && ok; ++round) {
    unsigned* const now = data + round % 2 * blocks * k_threads;
    now[block * k_threads + thread] = mixed(round, block, thread);
    barrier.arrive();
    if constexpr (K == Kind::split) {
      // Its own work, longer in one block than in another.
      long long const begin = clock64();
      while (clock64() - begin < (block + round) % 8 * 100) {
      }
    }
    unsigned other = (block + 1 + round % (blocks - 1)) % blocks;
    if constexpr (K == Kind::neighbours) {
      ok = barrier.wait_for(2, [&](unsigned i) { return (block + (i == 0 ? 1 : blocks - 1)) % blocks; });
      other = (block + (round % 2 == 0 ? 1 : blocks - 1)) % blocks;
    } else {
      ok = barrier.wait();
    }
    unsigned const from = (thread + 33) % k_threads;
    if (ok) bad += now[other * k_threads + from] != mixed(round, other, from);
  }
  if (bad != 0) atomicAdd(wrong, bad);
  if (!ok && thread == 0) atomicAdd(gave_up, 1u);
}

struct Outcome {
  unsigned wrong = 0, gave_up = 0;
  StallRecord stall;
};

constexpr unsigned k_nobody = 0xFFFFFFFFu;

template <Kind K>
class Grid {
 public:
  explicit Grid(unsigned blocks)
      : blocks_(blocks),
        words_(std::max(grid_barrier_words(blocks), epoch_barrier_words(blocks)), 0),
        data_(2 * blocks * k_threads, k_poison),
        counts_(2, 0),
        stall_(1, 0) {}

  void zero() {
    words_.fill(0);
    stall_.fill(0);
    counts_.fill(0);
  }

  Outcome run(unsigned count, unsigned missing = k_nobody, unsigned long long deadline_ns = 3'000'000'000) {
    constexpr unsigned size = K == Kind::clusters ? 2 : 1;
    Shape shape{blocks_, k_threads, 0, size};
    shape.cooperative = true;
    launch(shape, nullptr, rounds<K>, BarrierWords{words_.get(), blocks_ / size},
           Watch{stall_.get(), deadline_ns}, data_.get(), count, missing, counts_.get(), counts_.get() + 1);
    ok(cudaDeviceSynchronize());
    auto const counts = counts_.download();
    return {counts[0], counts[1], stall_.download()[0]};
  }

 private:
  unsigned blocks_;
  DeviceBuffer<unsigned> words_, data_, counts_;
  DeviceBuffer<StallRecord> stall_;
};

unsigned sms() {
  cudaDeviceProp device;
  ok(cudaGetDeviceProperties(&device, 0));
  return static_cast<unsigned>(device.multiProcessorCount);
}

template <Kind K>
void orders(unsigned blocks, unsigned count) {
  Grid<K> grid(blocks);
  count = static_cast<unsigned>(launches(static_cast<int>(count)));
  // Twice, without a reset between them.
  for (unsigned const rounds : {count, count / 10 + 1}) {
    auto const outcome = grid.run(rounds);
    EXPECT_EQ(outcome.gave_up, 0u);
    EXPECT_EQ(outcome.wrong, 0u) << "of " << static_cast<double>(rounds) * blocks * k_threads << " words";
  }
}

template <Kind K>
void names_who_is_missing(unsigned blocks) {
  constexpr unsigned size = K == Kind::clusters ? 2 : 1;
  Grid<K> grid(blocks);
  EXPECT_EQ(grid.run(3).gave_up, 0u);
  auto const outcome = grid.run(3, 41, 50'000'000);
  EXPECT_GT(outcome.gave_up, 0u);
  EXPECT_EQ(outcome.stall.state, 2u);
  if (K == Kind::neighbours) {
    // Neighbours of neighbours wait as well, each for the one on its way to 41: whose deadline is met first
    // is a matter of when it looks at the clock. Three rounds reach so far.
    EXPECT_LE(std::abs(outcome.stall.semaphore - 41), 2);
    EXPECT_EQ(std::abs(outcome.stall.tile - 41), std::abs(outcome.stall.semaphore - 41) + 1);
  } else {
    EXPECT_EQ(outcome.stall.semaphore, 41);
  }
  EXPECT_GE(outcome.stall.waited_ns, 50'000'000ull);
  EXPECT_LT(outcome.stall.waited_ns, 1'000'000'000ull);
  if (K == Kind::whole) {
    EXPECT_EQ(outcome.gave_up, blocks / size - 1);
    EXPECT_EQ(outcome.stall.expected - outcome.stall.seen, 1u);
  }
  grid.zero();
  auto const again = grid.run(1000);
  EXPECT_EQ(again.gave_up, 0u);
  EXPECT_EQ(again.wrong, 0u);
}

TEST(GpuBarrier, WholeOrders) { orders<Kind::whole>(sms(), k_rounds); }
TEST(GpuBarrier, WholeOrdersManyBlocks) { orders<Kind::whole>(8 * sms(), k_rounds / 4); }
TEST(GpuBarrier, SplitOrders) { orders<Kind::split>(sms(), k_rounds); }
TEST(GpuBarrier, ClustersOrder) { orders<Kind::clusters>(sms() / 2 * 2, k_rounds); }
TEST(GpuBarrier, NeighboursOrder) { orders<Kind::neighbours>(sms(), k_rounds); }
TEST(GpuBarrier, AMissingBlockIsNamed) { names_who_is_missing<Kind::whole>(sms()); }
TEST(GpuBarrier, AMissingClusterIsNamed) { names_who_is_missing<Kind::clusters>(sms() / 2 * 2); }
TEST(GpuBarrier, AMissingNeighbourIsNamed) { names_who_is_missing<Kind::neighbours>(sms()); }

}  // namespace
}  // namespace tessera::gpu
