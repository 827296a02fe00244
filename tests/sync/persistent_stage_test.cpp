// SPDX-License-Identifier: Apache-2.0
// The view of a stage whose blocks compute many tiles: what is ready, what is posted, which launch it is.
// Threads of the host stand for blocks.
#include "tessera/sync/persistent_stage.cuh"

#include <gtest/gtest.h>

#include <random>
#include <thread>
#include <type_traits>
#include <vector>

#include "support/real_clock.hpp"

namespace tessera {
namespace {

/// Gives up at once.
struct Impatient {
  struct Patience {};
  Patience begin() const { return {}; }
  bool go_on(Patience&, WaitPlace const& place, unsigned, unsigned) const {
    *last = place;
    return false;
  }
  static constexpr bool may_stop = true;
  WaitPlace* last = nullptr;
};

/// A producer, stage 0, and a consumer of the same grid that reads it through operand a, stage 1.
struct Chain {
  Chain(SemaphoreMap const& map, TileGrid const& grid, int splits = 1)
      : semaphores(static_cast<std::size_t>(map.count(grid))), counters(counters_for(2)) {
    auto set = runtime_set(map, grid, splits, 0, table);
    if (!table.empty()) set.table = table.data();
    producer.grid = consumer.grid = grid;
    producer.splits = splits;
    producer.posts = 1;
    producer.post = set;
    consumer.index = 1;
    consumer.needs_epoch = true;
    consumer.operand[0].produced = true;
    consumer.operand[0].has_set = true;
    consumer.operand[0].set = set;
  }
  ChainMemory memory() { return {semaphores.data(), counters.data()}; }

  RuntimeStage producer, consumer;
  std::vector<RuntimeWait> table;
  std::vector<unsigned> semaphores;
  std::vector<unsigned long long> counters;
};

SemaphoreMap any_map(std::mt19937& random) {
  Grouping const groupings[] = {Grouping::each, Grouping::all, Grouping::block, Grouping::stride};
  SemaphoreMap map;
  for (auto& dimension : map.dimension)
    dimension = {groupings[random() % 4], 1 + static_cast<int>(random() % 9)};
  return map;
}
TileBox any_box(TileGrid const& grid, std::mt19937& random) {
  TileBox box;
  for (int d = 0; d < k_max_rank; ++d) {
    box.begin[d] = static_cast<int>(random()) % grid.extent[d];
    if (box.begin[d] < 0) box.begin[d] += grid.extent[d];
    box.end[d] =
        box.begin[d] + 1 + static_cast<int>(random() % static_cast<unsigned>(grid.extent[d] - box.begin[d]));
  }
  return box;
}

/// The first coordinate from `from` on behind which something is missing.
template <class Ready>
int ready_by_search(TileGrid const& grid, TileBox const& box, int along, int from, Ready const& is_ready) {
  for (int at = from; at < box.end[along]; ++at)
    for (long long i = 0; i < grid.tiles(); ++i) {
      Tile const tile = tile_of(grid, i);
      bool inside = tile.at[along] == at;
      for (int d = 0; d < k_max_rank; ++d)
        inside = inside && (d == along || (tile.at[d] >= box.begin[d] && tile.at[d] < box.end[d]));
      if (inside && !is_ready(tile)) return at;
    }
  return box.end[along];
}

TEST(PersistentStage, WhatIsReadyOfABoxIsReadyTileByTile) {
  std::mt19937 random(20261122);
  int partly = 0;
  for (int trial = 0; trial < 300; ++trial) {
    TileGrid const grid{3,
                        {1 + static_cast<int>(random() % 11), 1 + static_cast<int>(random() % 5),
                         1 + static_cast<int>(random() % 3), 1}};
    auto const map = any_map(random);
    Chain chain(map, grid);
    WaitPlace last;
    PersistentStageView<> producer(chain.producer, chain.memory(), 3);
    PersistentStageView<Impatient> consumer(chain.consumer, chain.memory(), 2, Impatient{&last});
    auto const is_ready = [&](Tile const& tile) {
      auto const semaphore = map.semaphore_of(grid, tile);
      return chain.semaphores[static_cast<std::size_t>(semaphore)] == map.tiles_of(grid, semaphore);
    };
    auto const missing = random() % 4;
    for (long long i = 0; i < grid.tiles(); ++i)
      if (random() % 8 >= missing) producer.post(tile_of(grid, i));
    for (int look = 0; look < 20; ++look) {
      auto const box = any_box(grid, random);
      int const from[] = {
          box.begin[0] + static_cast<int>(random() % static_cast<unsigned>(box.end[0] - box.begin[0])),
          box.begin[1], box.begin[2]};
      int const found[] = {consumer.ready<0>(operand_a, box, from[0]),
                           consumer.ready<1>(operand_a, box, from[1]),
                           consumer.ready<2>(operand_a, box, from[2])};
      for (int along = 0; along < 3; ++along) {
        int const wanted = ready_by_search(grid, box, along, from[along], is_ready);
        ASSERT_EQ(found[along], wanted) << "trial " << trial << ", along " << along;
        partly += wanted > from[along] && wanted < box.end[along] ? 1 : 0;
      }
      // What is there is returned at once; what is not is given up.
      PersistentStageView<Impatient> waiting(chain.consumer, chain.memory(), 2, Impatient{&last});
      int const to = waiting.wait_beyond<0>(operand_a, box, from[0]);
      ASSERT_EQ(waiting.stopped(), found[0] == from[0]);
      ASSERT_EQ(to, waiting.stopped() ? box.end[0] : found[0]);
      Tile const tile = tile_of(grid, static_cast<long long>(random() % static_cast<unsigned>(grid.tiles())));
      ASSERT_EQ(consumer.test(operand_a, tile), is_ready(tile));
      waiting.take(tile);
      ASSERT_EQ(waiting.wait(operand_a, tile), is_ready(tile));
      if (!is_ready(tile)) {
        EXPECT_EQ(last.stage, 1);
        EXPECT_EQ(last.tile, linear_of(grid, tile));
        EXPECT_EQ(last.semaphore, map.semaphore_of(grid, tile));
      }
    }
  }
  EXPECT_GT(partly, 300);
}

TEST(PersistentStage, OneSplitMayPostForAll) {
  Chain chain(SemaphoreMap{}, TileGrid{2, {3, 2, 1, 1}}, 2);
  PersistentStageView<> producer(chain.producer, chain.memory(), 1);
  PersistentStageView<> consumer(chain.consumer, chain.memory(), 1);
  producer.post(Tile{{1, 0}});
  producer.post(Tile{{2, 0}}, 2);
  EXPECT_FALSE(consumer.test(operand_a, Tile{{1, 0}}));
  EXPECT_TRUE(consumer.test(operand_a, Tile{{2, 0}}));
  EXPECT_EQ(chain.semaphores, (std::vector<unsigned>{0, 1, 2, 0, 0, 0}));
}

TEST(PersistentStage, ATileAsAWholeWaitsForOperandsAndForWhatIsOverwritten) {
  // Tile t reads all tiles up to t through operand b, of which every semaphore is in a list; nobody may store
  // before tile 3 is there.
  TileGrid const grid{1, {4, 1, 1, 1}};
  Chain chain(SemaphoreMap{}, grid);
  std::vector<int> const offsets{0, 1, 3, 6, 10};
  std::vector<RuntimeWait> waits;
  for (int t = 0; t < 4; ++t)
    for (int read = 0; read <= t; ++read) waits.push_back({read, 1});
  RuntimeWait const overwritten{3, 1};
  auto& stage = chain.consumer;
  stage.operand[1].produced = stage.operand[1].has_set = true;
  stage.operand[1].offsets = offsets.data();
  stage.operand[1].waits = waits.data();
  PersistentStageView<> producer(chain.producer, chain.memory(), 1);
  WaitPlace last;
  auto const waits_in_vain = [&](int tile, unsigned operands) {
    PersistentStageView<Impatient> view(stage, chain.memory(), 1, Impatient{&last});
    view.take(Tile{{tile}});
    bool const ok = view.wait_whole(operands);
    EXPECT_EQ(view.stopped(), !ok);
    return !ok;
  };
  producer.post(Tile{{0}});
  producer.post(Tile{{1}});
  EXPECT_FALSE(waits_in_vain(1, 2u));
  EXPECT_TRUE(waits_in_vain(2, 2u));
  EXPECT_EQ(last.semaphore, 2);
  EXPECT_EQ(last.tile, 2);
  EXPECT_FALSE(waits_in_vain(2, 0u));
  EXPECT_FALSE(waits_in_vain(2, 1u)) << "operand a has no list";
  // Outside of the grid: the last tile.
  EXPECT_TRUE(waits_in_vain(9, 2u));
  EXPECT_EQ(last.tile, 3);
  stage.before_stores = 1;
  stage.before_store = &overwritten;
  EXPECT_TRUE(waits_in_vain(0, 2u));
  EXPECT_EQ(last.semaphore, 3);
  producer.post(Tile{{3}});
  EXPECT_FALSE(waits_in_vain(0, 2u));
}

TEST(PersistentStage, CountsLaunchesWithoutADivision) {
  std::mt19937_64 random(20261122);
  for (unsigned const blocks : {1u, 2u, 3u, 7u, 64u, 131u, 132u, 1000u, 65535u, 0x7fffffffu}) {
    LaunchedBlocks const launched(blocks);
    for (int i = 0; i < 1000; ++i) {
      unsigned long long const most = ~0ULL / 2 / blocks;
      unsigned long long const launches = i == 0 ? most - 1 : (random() % most) >> (i % 63);
      EXPECT_EQ(launched.launches(launches * blocks), static_cast<unsigned>(launches));
      EXPECT_EQ(launched.launches(launches * blocks + blocks - 1), static_cast<unsigned>(launches));
    }
  }
}

TEST(PersistentStage, ATileOutsideOfTheGridIsNobodys) {
  Chain chain(SemaphoreMap{}, TileGrid{2, {3, 2, 1, 1}});
  PersistentStageView<> producer(chain.producer, chain.memory(), 1);
  for (Tile const tile : {Tile{{3, 0}}, Tile{{0, 2}}, Tile{{-1, 0}}}) producer.post(tile);
  EXPECT_EQ(chain.semaphores, std::vector<unsigned>(6, 0));
  producer.post_after_tma_store<Group::thread>(Tile{{2, 1}});
  EXPECT_EQ(chain.semaphores, (std::vector<unsigned>{0, 0, 0, 0, 0, 1}));
}

TEST(PersistentStage, TheEpochHoldsUntilTheLastBlockHasLeft) {
  Chain chain(SemaphoreMap{}, TileGrid{1, {5, 1, 1, 1}});
  for (unsigned launch = 0; launch < 4; ++launch)
    for (int block = 0; block < 3; ++block) {
      PersistentStageView<> stage(chain.consumer, chain.memory(), 3);
      EXPECT_EQ(stage.block_epoch(), launch);
      stage.leave();
    }
  // A worker learns it from its ticket, and leaves no count.
  chain.consumer.start = Start::worker;
  PersistentStageView<> worker(chain.consumer, chain.memory(), 3);
  worker.begin(17);
  EXPECT_EQ(worker.block_epoch(), 17u);
  worker.leave();
  EXPECT_EQ(chain.counters[static_cast<std::size_t>(
                detail::counter(chain.memory(), 1, detail::Counter::left) - chain.counters.data())],
            12u);
}

TEST(PersistentStage, AnOperandOfTheKernelsBeforeIsReadyOnceItWasWaitedFor) {
  Chain chain(SemaphoreMap{}, TileGrid{1, {5, 1, 1, 1}});
  chain.consumer.operand[0].waits_for_grid = true;
  chain.consumer.operand[0].has_set = false;
  PersistentStageView<> stage(chain.consumer, chain.memory(), 1);
  TileBox box;
  box.end[0] = 5;
  EXPECT_TRUE(stage.test(operand_b, Tile{}));  // no producer
  EXPECT_FALSE(stage.test(operand_a, Tile{}));
  EXPECT_EQ(stage.ready<0>(operand_a, box, 2), 2);
  EXPECT_EQ(stage.wait_beyond_for_tma<0>(operand_a, box, 2), 5);
  EXPECT_TRUE(stage.test(operand_a, Tile{}));
  EXPECT_EQ(stage.ready<0>(operand_a, box, 2), 5);
}

TEST(PersistentStage, ATileWaitsForAllThatItsTableNames) {
  Chain chain(SemaphoreMap{}, TileGrid{1, {3, 1, 1, 1}});
  int const offsets[] = {0, 1, 3, 3};
  RuntimeWait const waits[] = {{0, 1}, {1, 1}, {2, 1}};
  chain.consumer.operand[0].offsets = offsets;
  chain.consumer.operand[0].waits = waits;
  PersistentStageView<> producer(chain.producer, chain.memory(), 1);
  PersistentStageView<> consumer(chain.consumer, chain.memory(), 1);
  auto const ready = [&](int tile) {
    consumer.take(Tile{{tile}});
    return consumer.test_all(operand_a);
  };
  producer.post(Tile{{1}});
  EXPECT_FALSE(ready(0));
  EXPECT_FALSE(ready(1));
  EXPECT_TRUE(ready(2));
  producer.post(Tile{{2}});
  EXPECT_FALSE(ready(0));
  EXPECT_TRUE(ready(1));
  EXPECT_TRUE(consumer.wait_all_for_tma(operand_a));
}

/// Launches of two producer blocks and three consumer blocks over 24 tiles, which count up and are read by
/// rows as far as they are ready.
void expect_hand_over(SemaphoreMap const& map, bool plain_store) {
  TileGrid const grid{2, {6, 4, 1, 1}};
  Chain chain(map, grid);
  chain.producer.plain_store = plain_store;
  chain.producer.needs_epoch = plain_store;
  std::vector<int> data(24, 0), copy(24, 0);
  StallRecord stall;
  support::RealWatch const watch{&stall, support::k_patience_ns};
  for (int launch = 0; launch < 20; ++launch) {
    std::vector<std::thread> blocks;
    for (int block = 0; block < 2; ++block)
      blocks.emplace_back([&, block] {
        PersistentStageView<> stage(chain.producer, chain.memory(), 2);
        for (int tile = block; tile < 24; tile += 2) {
          data[static_cast<std::size_t>(tile)] += tile + 1;
          stage.post(tile_of(grid, tile));
        }
        stage.leave();
      });
    for (int block = 0; block < 3; ++block)
      blocks.emplace_back([&, block] {
        PersistentStageView<support::RealWatch> stage(chain.consumer, chain.memory(), 3, watch);
        for (int row = block; row < 4; row += 3) {
          TileBox box;
          box.end[0] = 6;
          box.begin[1] = row;
          box.end[1] = row + 1;
          for (int at = 0; at < 6;)
            for (int const to = stage.wait_beyond<0>(operand_a, box, at); at < to; ++at)
              copy[static_cast<std::size_t>(6 * row + at)] = data[static_cast<std::size_t>(6 * row + at)];
        }
        stage.leave();
      });
    for (auto& block : blocks) block.join();
    ASSERT_EQ(stall.state, 0u);
    for (std::size_t tile = 0; tile < 24; ++tile)
      ASSERT_EQ(copy[tile], (launch + 1) * (static_cast<int>(tile) + 1));
  }
}

TEST(PersistentStage, HandsTilesOverWhateverThePolicyAndTheBlocks) {
  SemaphoreMap map;
  expect_hand_over(map, false);
  expect_hand_over(map, true);
  map.dimension[0] = {Grouping::all, 1};
  expect_hand_over(map, false);
  map.dimension[0] = {Grouping::block, 4};
  map.dimension[1] = {Grouping::stride, 2};
  expect_hand_over(map, false);
}

}  // namespace
}  // namespace tessera
