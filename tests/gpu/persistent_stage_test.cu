// SPDX-License-Identifier: Apache-2.0
// Blocks that compute many tiles each, under policies drawn at random: what one warp finds ready is what was
// written, through ordinary stores and through the bulk copy engine, launch after launch.
#include <gtest/gtest.h>

#include <random>

#include "bulk.cuh"
#include "gpu/device_buffer.hpp"
#include "launches.hpp"
#include "tessera/sync/persistent_stage.cuh"

namespace tessera::gpu {
namespace {

constexpr int k_words = 32;  // of a tile
constexpr int k_bytes = k_words * static_cast<int>(sizeof(unsigned));

struct HandOver {
  RuntimeStage producer, consumer;
  ChainMemory memory;
  DeadlineWatch<> watch;
  unsigned* tiles;
  int along;  ///< the dimension that consumers read along
  unsigned long long* stale;
};

__device__ unsigned word_of(long long tile, unsigned launch, unsigned i) {
  unsigned x = (static_cast<unsigned>(tile) * 0x9E3779B9u) ^ (launch * 0x85EBCA6Bu) ^ i;
  x = (x ^ (x >> 16)) * 0x7feb352du;
  return x ^ (x >> 15);
}

/// Reads all tiles of the box as they get ready; one warp.
template <int Along>
__device__ void read_along(HandOver const& args, PersistentStageView<DeadlineWatch<>>& stage,
                           TileBox const& box, unsigned* copied, unsigned long long* barrier,
                           unsigned& phase) {
  unsigned const lane = threadIdx.x;
  auto const& grid = args.producer.grid;
  int at = box.begin[Along];
  while (at < box.end[Along]) {
    int to = stage.template ready<Along>(operand_a, box, at);
    fence_proxy_async();
    if (to == at) to = stage.template wait_beyond_for_tma<Along>(operand_a, box, at);
    if (stage.stopped()) return;
    TileBox part = box;
    part.begin[Along] = at;
    part.end[Along] = to;
    int size[3];
    for (int d = 0; d < 3; ++d) size[d] = part.end[d] - part.begin[d];
    for (int i = 0; i < size[0] * size[1] * size[2]; ++i) {
      Tile const tile{{part.begin[0] + i % size[0], part.begin[1] + i / size[0] % size[1],
                       part.begin[2] + i / size[0] / size[1]}};
      long long const linear = linear_of(grid, tile);
      unsigned const* const from = args.tiles + linear * k_words;
      unsigned word = 0;
      if (i % 2 == 0) {
        if (lane == 0) bulk_copy(copied, from, k_bytes, barrier, phase);
        phase ^= 1;
        __syncwarp();
        word = copied[lane];
        __syncwarp();
      } else {
        word = from[lane];
      }
      if (word != word_of(linear, stage.block_epoch(), lane)) atomicAdd(args.stale, 1ULL);
    }
    at = to;
  }
}

/// The first half of the blocks writes tiles, the second half reads boxes of them: all blocks are resident.
__global__ void hand_over(__grid_constant__ HandOver const args) {
  __shared__ __align__(128) unsigned copied[2 * k_words];
  __shared__ unsigned long long barrier;
  unsigned const lane = threadIdx.x;
  unsigned const half = launched_blocks() / 2;
  if (lane == 0) make_barrier(&barrier);
  __syncwarp();
  auto const& grid = args.producer.grid;
  if (blockIdx.x < half) {
    PersistentStageView<DeadlineWatch<>> stage(args.producer, args.memory, half, args.watch);
    unsigned const launch = stage.block_epoch();
    int turn = 0;
    for (long long linear = blockIdx.x; linear < grid.tiles(); linear += half, turn ^= 1) {
      unsigned* const to = args.tiles + linear * k_words;
      if (linear % 3 == 0) {
        unsigned* const mine = copied + turn * k_words;
        mine[lane] = word_of(linear, launch, lane);
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncwarp();
        if (lane == 0) start_bulk_store(to, mine, k_bytes);
        stage.post_after_tma_store(tile_of(grid, linear));
      } else {
        to[lane] = word_of(linear, launch, lane);
        fence_proxy_async();
        stage.post(tile_of(grid, linear));
      }
    }
    if (lane == 0) stage.leave();
    return;
  }
  PersistentStageView<DeadlineWatch<>> stage(args.consumer, args.memory, half, args.watch);
  unsigned phase = 0;
  for (unsigned i = 0; i < 6; ++i) {
    // A box of its own for each turn, of any size.
    TileBox box;
    for (int d = 0; d < 3; ++d) {
      unsigned const random = word_of(blockIdx.x, i, static_cast<unsigned>(d));
      auto const extent = static_cast<unsigned>(grid.extent[d]);
      box.begin[d] = static_cast<int>(random % extent);
      box.end[d] = box.begin[d] + 1 + static_cast<int>((random >> 16) % (extent - random % extent));
    }
    if (args.along == 0) read_along<0>(args, stage, box, copied, &barrier, phase);
    if (args.along == 1) read_along<1>(args, stage, box, copied, &barrier, phase);
    if (args.along == 2) read_along<2>(args, stage, box, copied, &barrier, phase);
  }
  // The next launch overwrites what the engine has read.
  fence_proxy_async();
  __syncwarp();
  if (lane == 0) stage.leave();
}

TEST(GpuPersistentStage, HandsTilesOverUnderAnyPolicy) {
  std::mt19937 random(20261122);
  Grouping const groupings[] = {Grouping::each, Grouping::all, Grouping::block, Grouping::stride};
  DeviceBuffer<unsigned long long> stale(1, 0);
  DeviceBuffer<StallRecord> record(1, 0);
  for (int trial = 0; trial < launches(60); ++trial) {
    TileGrid const grid{3,
                        {1 + static_cast<int>(random() % 90), 1 + static_cast<int>(random() % 7),
                         1 + static_cast<int>(random() % 3), 1}};
    SemaphoreMap map;
    for (auto& dimension : map.dimension)
      dimension = {groupings[random() % 4], 1 + static_cast<int>(random() % 9)};
    DeviceBuffer<unsigned> semaphores(static_cast<std::size_t>(map.count(grid)), 0);
    DeviceBuffer<unsigned long long> counters(static_cast<std::size_t>(counters_for(2)), 0);
    DeviceBuffer<unsigned> tiles(static_cast<std::size_t>(grid.tiles()) * k_words, k_poison);
    HandOver args{};
    args.producer.grid = args.consumer.grid = grid;
    args.producer.posts = 1;
    std::vector<RuntimeWait> table;
    args.producer.post = runtime_set(map, grid, 1, 0, table);
    DeviceBuffer<RuntimeWait> table_at(std::max<std::size_t>(1, table.size()));
    if (!table.empty()) {
      table_at.upload(table);
      args.producer.post.table = table_at.get();
    }
    args.producer.needs_epoch = true;
    args.producer.plain_store = trial % 2 == 0;
    args.consumer.index = 1;
    args.consumer.needs_epoch = true;
    args.consumer.operand[0].produced = true;
    args.consumer.operand[0].has_set = true;
    args.consumer.operand[0].set = args.producer.post;
    args.memory = {semaphores.get(), counters.get()};
    args.watch = {record.get(), 200'000'000};
    args.tiles = tiles.get();
    args.along = trial % 3;
    args.stale = stale.get();
    auto const half = 1 + random() % 60;
    for (int launch = 0; launch < 20; ++launch) hand_over<<<static_cast<unsigned>(2 * half), 32>>>(args);
    ok(cudaGetLastError());
    auto const stall = record.download()[0];
    ASSERT_EQ(stall.state, 0u) << "trial " << trial << ": semaphore " << stall.semaphore << " was "
                               << stall.seen << " instead of " << stall.expected;
    ASSERT_EQ(stale.download()[0], 0u) << "trial " << trial;
  }
}

TEST(GpuPersistentStage, AMissingTileMeetsTheDeadline) {
  DeviceBuffer<unsigned long long> stale(1, 0);
  DeviceBuffer<StallRecord> record(1, 0);
  DeviceBuffer<unsigned> semaphores(64, 0);
  DeviceBuffer<unsigned long long> counters(static_cast<std::size_t>(counters_for(2)), 0);
  DeviceBuffer<unsigned> tiles(64 * k_words, k_poison);
  HandOver args{};
  args.producer.grid = args.consumer.grid = TileGrid{1, {40, 1, 1, 1}};
  args.consumer.index = 1;
  args.consumer.needs_epoch = true;
  args.consumer.operand[0].produced = true;
  args.consumer.operand[0].has_set = true;
  args.consumer.operand[0].set.scale[0] = 1;
  args.memory = {semaphores.get(), counters.get()};
  args.watch = {record.get(), 50'000'000};
  args.tiles = tiles.get();
  args.stale = stale.get();
  hand_over<<<2, 32>>>(args);  // the producer posts to no set
  ok(cudaGetLastError());
  auto const stall = record.download()[0];
  EXPECT_EQ(stall.state, 2u);
  EXPECT_EQ(stall.stage, 1);
  EXPECT_EQ(stall.seen, 0u);
  EXPECT_EQ(stall.expected, 1u);
}

}  // namespace
}  // namespace tessera::gpu
