// SPDX-License-Identifier: Apache-2.0
// The barriers among GPUs: what they order, and what happens when somebody does not come.
#include "tessera/sync/peer_barrier.cuh"

#include <gtest/gtest.h>

#include <chrono>

#include "bench/asked_gpus.hpp"
#include "measure/gpu/methods/peer_pointers.cuh"

namespace tessera::probe {
namespace {

constexpr unsigned k_threads = 64;
constexpr unsigned long long k_deadline_ns = 200'000'000;
using Watch = DeadlineWatch<>;

struct OneGpu {
  PeerWords words;
  BarrierWords blocks;
  PeerPointers<unsigned> cells;  ///< two by turns for every thread of every block of every GPU
  unsigned gpu = 0;
  unsigned rounds = 0;
  int absent = -1;  ///< a block of this GPU that leaves before its last round
  unsigned* wrong = nullptr;
  Watch watch = {};
};

struct ByBlock {
  PeerBarrier<Watch> barrier;
  __device__ explicit ByBlock(OneGpu const& a)
      : barrier(a.words, a.gpu, a.gpu * gridDim.x + blockIdx.x, a.watch) {}
};
struct ByGpu {
  PeerGridBarrier<Watch> barrier;
  __device__ explicit ByGpu(OneGpu const& a) : barrier(a.words, a.blocks, a.gpu, a.watch) {}
};

/// Each round, every thread writes a word into every GPU's memory, all meet, and each reads one that another
/// block wrote, from its own GPU's memory. Split: what is between arriving and waiting disturbs nobody.
template <class Barrier>
__global__ void __launch_bounds__(k_threads) write_meet_read(__grid_constant__ OneGpu const a) {
  Barrier all(a);
  auto& barrier = all.barrier;
  auto const gpus = static_cast<unsigned>(a.cells.count);
  unsigned const parties = gpus * gridDim.x, party = a.gpu * gridDim.x + blockIdx.x;
  unsigned wrong = 0;
  for (unsigned round = 1; round <= a.rounds; ++round) {
    if (round == a.rounds && static_cast<int>(blockIdx.x) == a.absent) return;
    unsigned const half = round % 2 * parties * k_threads;
    for (unsigned gpu = 0; gpu < gpus; ++gpu)
      a.cells.at[gpu][half + party * k_threads + threadIdx.x] = round * 7919 + party;
    barrier.arrive();
    if (!barrier.wait()) break;
    unsigned const other = (party + round) % parties;
    wrong += a.cells.at[a.gpu][half + other * k_threads + threadIdx.x] != round * 7919 + other;
  }
  if (wrong > 0) atomicAdd(a.wrong, wrong);
}

class Peers : public testing::Test {
 protected:
  void SetUp() override {
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count < gpus ||
        reachable_gpus().size() < static_cast<std::size_t>(gpus))
      GTEST_SKIP() << "needs " << gpus << " GPUs that reach each other's memory";
    auto const devices = reachable_gpus();
    auto const count_of = static_cast<std::size_t>(gpus);
    team = std::make_unique<Team>(std::vector<int>(devices.begin(), devices.begin() + gpus));
    words = std::make_unique<TeamBuffer<unsigned>>(*team, count_of * k_most_blocks);
    block_words = std::make_unique<TeamBuffer<unsigned>>(*team, 1);
    cells = std::make_unique<TeamBuffer<unsigned>>(*team, 2 * count_of * k_most_blocks * k_threads);
    wrong = std::make_unique<TeamBuffer<unsigned>>(*team, 1);
    stalls = std::make_unique<TeamBuffer<StallRecord>>(*team, 1);
    team->preload(write_meet_read<ByBlock>);
    team->preload(write_meet_read<ByGpu>);
  }

  template <class Barrier>
  void launch(int rank, unsigned blocks, unsigned rounds, int absent = -1) {
    OneGpu a;
    a.words.gpus = static_cast<unsigned>(gpus);
    a.words.parties = std::is_same_v<Barrier, ByBlock> ? a.words.gpus * blocks : a.words.gpus;
    for (int gpu = 0; gpu < gpus; ++gpu) a.words.at[gpu] = words->at(gpu);
    a.blocks = {block_words->at(rank), blocks};
    a.cells = pointers(*cells, gpus);
    a.gpu = static_cast<unsigned>(rank);
    a.rounds = rounds;
    a.absent = absent;
    a.wrong = wrong->at(rank);
    a.watch = {stalls->at(rank), k_deadline_ns};
    void* arguments[] = {&a};
    team->select(rank);
    ok(cudaLaunchCooperativeKernel(reinterpret_cast<void const*>(write_meet_read<Barrier>), dim3(blocks),
                                   dim3(k_threads), arguments, 0, team->stream(rank)));
  }

  /// Waits for both, and says how long that took, s.
  double finish() const {
    auto const begin = std::chrono::steady_clock::now();
    team->wait();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  template <class Barrier>
  void expect_order(unsigned blocks, unsigned rounds) {
    for (int rank = 0; rank < gpus; ++rank) launch<Barrier>(rank, blocks, rounds);
    finish();
    for (int rank = 0; rank < gpus; ++rank) {
      EXPECT_EQ(wrong->download(rank)[0], 0u) << "GPU " << rank;
      EXPECT_EQ(stalls->download(rank)[0].state, 0u) << "GPU " << rank;
    }
  }

  void clear() const {
    for (auto const* buffer : {words.get(), block_words.get(), wrong.get()}) buffer->clear();
    stalls->clear();
    team->wait();
  }

  static constexpr std::size_t k_most_blocks = 132;
  int const gpus = bench::asked_gpus();
  std::unique_ptr<Team> team;
  std::unique_ptr<TeamBuffer<unsigned>> words, block_words, cells, wrong;
  std::unique_ptr<TeamBuffer<StallRecord>> stalls;
};

TEST_F(Peers, ABlockAGpuOrdersAHundredThousandRounds) { expect_order<ByBlock>(1, 100'000); }
TEST_F(Peers, GridsWhoseBlocksAllTellOrderTheirData) { expect_order<ByBlock>(132, 100'000); }
TEST_F(Peers, GridsWhoseLastBlockTellsOrderTheirData) { expect_order<ByGpu>(132, 100'000); }

TEST_F(Peers, TheNextLaunchGoesOnWithoutAReset) {
  for (int launch = 0; launch < 20; ++launch) expect_order<ByGpu>(5, 7);
  // The other barrier counts other words.
  clear();
  for (int launch = 0; launch < 20; ++launch) expect_order<ByBlock>(5, 7);
}

TEST_F(Peers, APeerThatNeverRunsIsNamed) {
  for (int rank = 0; rank < gpus; ++rank)
    if (rank != 1) launch<ByGpu>(rank, 3, 10);
  EXPECT_LT(finish(), 60);
  auto const record = stalls->download(0)[0];
  EXPECT_EQ(record.state, 2u);
  EXPECT_EQ(record.tile, 0);
  EXPECT_EQ(record.semaphore, 1) << "the GPU that is missing";
  EXPECT_EQ(record.seen, 0u);
  EXPECT_EQ(record.expected, 1u);
  EXPECT_GE(record.waited_ns, k_deadline_ns);
  clear();
  expect_order<ByGpu>(132, 100);
}

TEST_F(Peers, ABlockThatLeavesEarlyStallsAllGpus) {
  for (int rank = 0; rank < gpus; ++rank) launch<ByGpu>(rank, 4, 10, rank == 1 ? 2 : -1);
  EXPECT_LT(finish(), 60);
  auto const first = stalls->download(0)[0], second = stalls->download(1)[0];
  EXPECT_EQ(first.state, 2u);
  EXPECT_EQ(first.semaphore, 1) << "the GPU that did not come";
  EXPECT_EQ(first.expected, 10u);
  EXPECT_EQ(second.state, 2u);
  // On its own GPU either the block that is missing is named, or the GPU itself, by a block that waits for
  // it.
  EXPECT_TRUE(second.semaphore == 2 || second.semaphore == 1) << second.semaphore;
  clear();
  expect_order<ByBlock>(132, 100);
}

}  // namespace
}  // namespace tessera::probe
