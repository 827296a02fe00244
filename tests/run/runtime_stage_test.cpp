// SPDX-License-Identifier: Apache-2.0
// A stage that is described at run time waits for and posts to what the plan says, and measured stamps become
// a timeline.
#include <gtest/gtest.h>

#include <optional>

#include "golden/mlp_row_sync.cuh"
#include "support/plans.hpp"
#include "tessera/run/measured.hpp"
#include "tessera/run/runtime_tables.hpp"

namespace tessera {
namespace {

using support::Policy;

Pipeline chain() {
  Pipeline p;
  p.name = "chain";
  p.stages = {support::make_stage("first", 4, 3, 1, 2), support::make_stage("second", 3, 3),
              support::make_stage("third", 4, 3)};
  p.dependences = {support::row_dependence(p, 1, 0), support::row_dependence(p, 2, 1),
                   support::tile_dependence(2, 0, "b")};
  return p;
}

/// Gives up at once: a wait answers whether it would have passed.
struct Impatient {
  struct Patience {};
  Patience begin() const { return {}; }
  bool go_on(Patience&, WaitPlace const&, unsigned, unsigned) const { return false; }
  static constexpr bool may_stop = true;
};
using View = RuntimeStageView<Impatient>;

TEST(RuntimeStage, AChainedLaunchWaitsForWhatIsBeforeThePlan) {
  auto plan = support::make_plan(chain(), support::ideal_machine(2), Mechanism::pdl_tiles, Policy::tile_sync);
  auto const in_order = describe_stages(plan).value();
  EXPECT_FALSE(in_order.stages[0].operand[0].waits_for_grid);
  plan.launches.front().start = LaunchStart::early;
  auto const chained = describe_stages(plan).value();
  EXPECT_TRUE(chained.stages[0].operand[0].waits_for_grid);
  EXPECT_FALSE(chained.stages[0].operand[1].waits_for_grid) << "weights may be loaded early";
  EXPECT_TRUE(chained.stages[0].triggers_at_start);
  EXPECT_TRUE(chained.stages[0].completes_after_previous);
  EXPECT_FALSE(chained.stages[1].operand[0].waits_for_grid) << "it waits for tiles";
}

TEST(RuntimeStage, EveryTileWaitsForAndPostsWhatThePlanSays) {
  for (auto const policy : {Policy::tile_sync, Policy::row_sync, Policy::whole_grid})
    for (bool const plain_store : {false, true}) {
      auto plan = support::make_plan(chain(), support::ideal_machine(2), Mechanism::pdl_tiles, policy);
      for (auto& stage : plan.stages) stage.plain_store = plain_store;
      plan.stages[0].order = {"backwards", {11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0}, {}};
      auto const tables = describe_stages(plan).value();
      std::vector<unsigned> semaphores(64);
      std::vector<unsigned long long> counters(static_cast<std::size_t>(counters_for(3)));
      ChainMemory const memory{semaphores.data(), counters.data()};
      for (unsigned epoch = 0; epoch < 3; ++epoch)
        for (int s = 0; s < 3; ++s) {
          auto const stage = tables.stage(s, tables.numbers.data(), tables.waits.data());
          for (std::int64_t block = 0; block < stage.blocks(); ++block) {
            View view(stage, memory);
            auto const tile = view.start(block);
            auto const work = block_work(plan.pipeline.stages[static_cast<std::size_t>(s)],
                                         plan.stages[static_cast<std::size_t>(s)], block);
            ASSERT_EQ(linear_of(stage.grid, tile), work.tile);
            ASSERT_EQ(view.split(), work.split);
            ASSERT_EQ(view.epoch(), epoch);
            EXPECT_TRUE(view.wait_all(operand_a));
            EXPECT_TRUE(view.wait_all(operand_b));
            // With one post fewer than the plan asks for, each of the tile's waits fails.
            for (std::size_t d = 0; d < plan.pipeline.dependences.size(); ++d) {
              if (plan.pipeline.dependences[d].consumer != s) continue;
              for (auto const& awaited : awaited_by(plan, static_cast<int>(d), work.tile)) {
                auto& semaphore = semaphores[static_cast<std::size_t>(awaited.semaphore)];
                --semaphore;
                bool const a = view.wait_all(operand_a);
                bool const b = view.wait_all(operand_b);
                EXPECT_FALSE(a && b);
                ++semaphore;
              }
            }
            auto const before = semaphores;
            view.post();
            auto expected = before;
            for (auto const posted : posted_by(plan, s, work.tile))
              ++expected[static_cast<std::size_t>(posted)];
            EXPECT_EQ(semaphores, expected);
          }
        }
    }
}

TEST(RuntimeStage, AStageThatIsReadInTwoWaysPostsToBothSets) {
  auto plan = support::make_plan(chain(), support::ideal_machine(2), Mechanism::pdl_tiles, Policy::row_sync);
  // The third stage, too, reads the first one: by semaphores of its own.
  auto tiles = plan.semaphores[static_cast<std::size_t>(plan.dependences[2].semaphore_set)];
  tiles.map = SemaphoreMap{};
  tiles.count = 12;
  for (auto const& set : plan.semaphores) tiles.first = std::max(tiles.first, set.first + set.count);
  plan.dependences[2].semaphore_set = static_cast<int>(plan.semaphores.size());
  plan.semaphores.push_back(tiles);
  auto last = tiles;  // and by a third set, of pairs of rows
  last.map.dimension[1] = {Grouping::block, 2};
  last.first += 12;
  last.count = 8;
  plan.semaphores.push_back(last);
  auto const tables = describe_stages(plan).value();
  auto const stage = tables.stage(0, tables.numbers.data(), tables.waits.data());
  EXPECT_EQ(stage.posts, 3);
  std::vector<unsigned> semaphores(64);
  std::vector<unsigned long long> counters(static_cast<std::size_t>(counters_for(3)));
  auto expected = semaphores;
  for (std::int64_t block = 0; block < stage.blocks(); ++block) {
    View view(stage, {semaphores.data(), counters.data()});
    view.start(block);
    view.post();
    for (auto const posted : posted_by(plan, 0, view.linear())) ++expected[static_cast<std::size_t>(posted)];
    ASSERT_EQ(semaphores, expected);
  }
}

TEST(RuntimeStage, ASecondWaitForASemaphoreDoesNotLookAgain) {
  for (auto const policy : {Policy::tile_sync, Policy::row_sync}) {
    auto const plan = support::make_plan(chain(), support::ideal_machine(2), Mechanism::pdl_tiles, policy);
    auto const tables = describe_stages(plan).value();
    auto const stage = tables.stage(1, tables.numbers.data(), tables.waits.data());
    std::vector<unsigned> semaphores(64, 1u << 20);
    std::vector<unsigned long long> counters(static_cast<std::size_t>(counters_for(3)));
    View view(stage, {semaphores.data(), counters.data()});
    auto const tile = view.start(0);
    Tile const first{{0, tile.at[1]}}, second{{1, tile.at[1]}};
    EXPECT_TRUE(view.wait(operand_a, first));
    EXPECT_TRUE(view.wait(operand_b, first)) << "nobody makes operand b";
    std::fill(semaphores.begin(), semaphores.end(), 0u);
    EXPECT_TRUE(view.wait(operand_a, first));
    // A row that shares its semaphore is there as a whole.
    EXPECT_EQ(view.wait(operand_a, second), policy == Policy::row_sync);
    EXPECT_EQ(view.wait(operand_a, first), true);
    // What one number has found is not known of the next.
    view.begin(1, 0);
    EXPECT_FALSE(view.wait(operand_a, first));
  }
}

TEST(RuntimeStage, EpochsHoldUntilAllBlocksOfALaneHaveLeft) {
  for (int const tiles : {1, 3, 63, 64, 65, 100, 128, 200}) {
    Pipeline p;
    p.name = "two";
    p.stages = {support::make_stage("first", tiles, 1), support::make_stage("second", tiles, 1)};
    p.dependences = {support::row_dependence(p, 1, 0)};
    auto const plan = support::make_plan(p, support::ideal_machine(2), Mechanism::pdl_tiles,
                                         Policy::tile_sync, {false, false, true});
    auto const tables = describe_stages(plan).value();
    auto const stage = tables.stage(1, tables.numbers.data(), tables.waits.data());
    ASSERT_EQ(stage.start, Start::block_index);
    ASSERT_TRUE(stage.needs_epoch);
    std::vector<unsigned> semaphores(256, 1u << 20);
    std::vector<unsigned long long> counters(static_cast<std::size_t>(counters_for(2)));
    std::vector<int> blocks(static_cast<std::size_t>(tiles));
    for (unsigned launch = 0; launch < 5; ++launch) {
      // Each starts before the one before it leaves.
      for (std::size_t i = 0; i < blocks.size(); ++i)
        blocks[i] = static_cast<int>((i * 11 + launch) % blocks.size());
      std::optional<View> before;
      for (int const block : blocks) {
        View view(stage, {semaphores.data(), counters.data()});
        view.start(block);
        ASSERT_EQ(view.epoch(), launch) << tiles << " blocks, block " << block;
        if (before) before->post();
        before = view;
      }
      before->post();
    }
  }
}

TEST(RuntimeStage, TicketsOfAPersistentLaunchAreThoseOfThePlan) {
  auto plan = support::make_plan(chain(), support::ideal_machine(2), Mechanism::fused);
  auto const draw_all = [&] {
    auto const tables = describe_stages(plan).value();
    auto const tickets = tables.tickets(0, tables.numbers.data());
    std::vector<unsigned long long> counters(static_cast<std::size_t>(counters_for(3)));
    ChainMemory const memory{nullptr, counters.data()};
    std::vector<std::pair<int, long long>> drawn;
    for (unsigned launch = 0; launch < 2; ++launch)
      for (int left = 0; left < plan.launches.front().workers;) {
        auto const draw = draw_next(tickets, memory, [&](int s) {
          return static_cast<long long>(plan.pipeline.stages[static_cast<std::size_t>(s)].blocks());
        });
        EXPECT_EQ(draw.epoch, launch);
        left += draw.left ? 1 : 0;
        if (!draw.left) drawn.emplace_back(draw.stage, draw.block);
      }
    return drawn;
  };
  auto const in_order = draw_all();
  ASSERT_EQ(in_order.size(), 2u * (24 + 9 + 12));
  EXPECT_EQ(in_order[23], (std::pair<int, long long>(0, 23)));
  EXPECT_EQ(in_order[24], (std::pair<int, long long>(1, 0)));
  for (std::int32_t s : {2, 1, 0})
    for (std::int32_t b = 0; b < plan.pipeline.stages[static_cast<std::size_t>(s)].blocks(); ++b)
      plan.launches.front().tickets.push_back({s, b});
  EXPECT_EQ(draw_all()[0], (std::pair<int, long long>(2, 0)));
}

TEST(RuntimeStage, MoreOperandsThanTheTablesHoldAreRefused) {
  auto plan = support::make_plan(chain(), support::ideal_machine(2), Mechanism::pdl_tiles);
  plan.pipeline.dependences[2].operand = "weights";
  auto const refused = describe_stages(plan);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(to_text(refused.error()),
            "error E0519: operand \"weights\" of third is not among the first 4 in plan \"chain\"\n"
            "   hint: compile the plan into the kernel: generate_header() has no such limit");
}

TEST(MeasuredTimeline, PutsBlocksOnSlotsAndTimesInOrder) {
  Pipeline p;
  p.name = "two";
  p.stages = {support::make_stage("first", 2, 1), support::make_stage("second", 1, 1)};
  p.dependences = {support::row_dependence(p, 1, 0)};
  auto const plan = support::make_plan(p, support::ideal_machine(2), Mechanism::pdl_tiles);
  std::vector<BlockStamps> stamps(3);
  stamps[0] = {1'000'000, 0, 0, 1'000'400, 1'000'410, 0, 1, 0};
  stamps[1] = {1'000'100, 0, 0, 1'000'300, 1'000'290, 0, 1, 0};  // the timer's step: posted before stored
  stamps[2] = {1'000'320, 1'000'420, 1'000'500, 1'000'600, 1'000'640, 100, 1, 0};
  auto const timeline = measured_timeline(plan, stamps, 2).value();
  EXPECT_EQ(timeline.end, 640'000);
  EXPECT_TRUE(timeline.measured);
  EXPECT_EQ(timeline.slots_per_sm, 2);
  EXPECT_EQ(timeline.waves, 2);
  ASSERT_EQ(timeline.tiles.size(), 3u);
  EXPECT_EQ(timeline.tiles[1].posted, 300'000);
  auto const& last = timeline.tiles[2];
  EXPECT_EQ(last.slot, 1);
  EXPECT_EQ(last.ready, 420'000);
  EXPECT_EQ(last.waiting, 100'000);
  // One of two SMs, busy until 410, then from 420 to 640.
  EXPECT_DOUBLE_EQ(timeline.busy, (410.0 + 220.0) / (2 * 640.0));

  stamps[1].posted = 0;
  auto const refused = measured_timeline(plan, stamps, 2);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().front().message, "first(1, 0) of two has no complete time stamps");
}

TEST(Recorded, AStageOfAGeneratedHeaderPostsAsItDoesWithoutStamps) {
  namespace mlp = gpt_3_mlp_RowSync;
  using Compiled = StageView<mlp::gemm1>;
  std::vector<unsigned> semaphores(64);
  std::vector<unsigned long long> counters(static_cast<std::size_t>(counters_for(2)));
  ChainMemory const memory{semaphores.data(), counters.data()};
  std::vector<BlockStamps> stamps(static_cast<std::size_t>(Compiled::blocks));
  Recorded<Compiled> stage(Compiled(memory), RecordTarget{stamps.data(), mlp::gemm1::grid()});
  auto const tile = stage.start(0);
  EXPECT_TRUE(stage.wait_all(operand_a));
  mark_loaded(stage);
  stage.post();
  auto const at = static_cast<std::size_t>(SetOf<mlp::sets::gemm1_0>::index_of(tile));
  EXPECT_EQ(semaphores[at], 1u);
}

TEST(RuntimeSet, AgreesWithThePolicysMapForEveryTile) {
  Grouping const groupings[] = {Grouping::each, Grouping::all, Grouping::block, Grouping::stride};
  TileGrid const grid{3, {7, 5, 4, 1}};
  for (int trial = 0; trial < 4 * 4 * 4 * 4; ++trial) {
    SemaphoreMap map;
    // All groupings of two dimensions, with widths that do and do not divide the extents, and beyond them.
    map.dimension[0] = {groupings[trial % 4], 1 + trial / 16 % 9};
    map.dimension[1] = {groupings[trial / 4 % 4], 1 + trial % 6};
    map.dimension[2] = {groupings[trial / 16 % 4], 3};
    std::vector<RuntimeWait> tables(3);  // others' before its own
    auto set = runtime_set(map, grid, 2, 1000, tables);
    if (tables.size() > 3) set.table = tables.data() + 3;
    for (long long linear = 0; linear < grid.tiles(); ++linear) {
      auto const tile = tile_of(grid, linear);
      auto const semaphore = map.semaphore_of(grid, tile);
      ASSERT_EQ(set.at(tile).semaphore, 1000 + semaphore) << trial << ", tile " << linear;
      ASSERT_EQ(set.at(tile).posts, 2 * map.tiles_of(grid, semaphore)) << trial << ", tile " << linear;
    }
  }
  // Only what divides coordinates needs a table, and no larger one than the coordinates that it divides.
  std::vector<RuntimeWait> tables;
  SemaphoreMap rows;
  rows.dimension[0] = {Grouping::all, 1};
  EXPECT_EQ(runtime_set(rows, grid, 1, 0, tables).scale[0], 0);
  EXPECT_EQ(runtime_set(SemaphoreMap{}, grid, 1, 0, tables).scale[2], 35);
  EXPECT_TRUE(tables.empty());
  rows.dimension[1] = {Grouping::block, 2};
  EXPECT_EQ(runtime_set(rows, grid, 1, 0, tables).scale[1], 1);
  EXPECT_EQ(tables.size(), 5u * 4u);
}

}  // namespace
}  // namespace tessera
