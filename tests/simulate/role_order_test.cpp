// SPDX-License-Identifier: Apache-2.0
// Random loops, simulated with roles: every tile is computed once, and none before what it reads is seen.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <tuple>

#include "role_loops.hpp"
#include "simulate/role_run.hpp"
#include "support/random_loop.hpp"
#include "tessera/describe/dsl.hpp"
#include "tessera/describe/tile_relation.hpp"
#include "tessera/run/roles.cuh"

namespace tessera {
namespace {

using simulation::RoleRecord;
using Tiles = std::map<std::tuple<long long, int, int>, RoleRecord>;

RoleLoop with_random_work(LoopPlan const& plan, std::mt19937& random) {
  auto const draw = [&](int least, int most) { return std::uniform_int_distribution(least, most)(random); };
  RoleLoop loop{plan, {}, {draw(1, 6), draw(0, 3), draw(4, 6)}, draw(1, 7)};
  for (std::size_t s = 0; s < plan.loop.body.stages.size(); ++s) {
    RoleWork work;
    work.slots = draw(0, 5);
    work.slot_bytes = draw(1, 1000);
    work.late_slot_bytes = draw(1, 1000);
    work.slots_per_late_slot = draw(1, 3);
    work.late_warps = draw(1, 4);
    work.slot_ns = draw(0, 300);
    work.end_ns = draw(0, 300);
    loop.work.push_back(work);
    if (loop.iterations % 2 == 0) loop.tile_bytes.push_back(draw(0, 5000));
  }
  return loop;
}

/// How many reads there are of what was not seen yet, and stores over what somebody still reads.
int too_early(RoleLoop const& loop, Tiles const& tiles, simulation::Picoseconds hop) {
  int found = 0;
  auto const& body = loop.plan.loop.body;
  auto const look = [&](Dependence const& dependence, int distance) {
    TileRelation const relation(body, dependence);
    std::vector<std::int64_t> producers;
    for (auto const& [at, one] : tiles) {
      auto const& [iteration, stage, tile] = at;
      if (stage != dependence.consumer || iteration < distance) continue;
      relation.producers_of(tile, producers);
      for (auto const producer : producers) {
        auto const& made = tiles.at({iteration - distance, dependence.producer, static_cast<int>(producer)});
        found += one.multiplied < made.posted + hop;
      }
    }
  };
  for (auto const& dependence : body.dependences) look(dependence, 0);
  for (auto const& carried : loop.plan.loop.carried) look(carried.dependence, carried.distance);
  auto const stages = static_cast<int>(body.stages.size());
  auto const store = [&](int writer, int reader, int distance) {
    for (auto const& [at, one] : tiles) {
      auto const& [iteration, stage, tile] = at;
      auto const period = iteration / loop.plan.period;
      if (iteration % loop.plan.period * stages + stage != writer || period < distance) continue;
      auto const of = (period - distance) * loop.plan.period + reader / stages;
      for (int t = 0; t < body.stages[static_cast<std::size_t>(reader % stages)].blocks(); ++t)
        found += one.stored < tiles.at({of, reader % stages, t}).posted + hop;
    }
  };
  for (auto const& edge : loop.plan.plan.reuse_edges) store(edge.writer, edge.reader, 0);
  for (auto const& reuse : loop.plan.reuses) store(reuse.writer, reuse.reader, reuse.distance);
  return found;
}

TEST(RoleOrder, RandomLoopsEndAndNothingIsReadBeforeItIsThere) {
  std::mt19937 random(11);
  auto machine = support::free_machine();
  machine.dram_gbps = 10;
  machine.load_ns = 100;
  machine.hop_ns = 150;
  machine.post_ns = 20;
  int run = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    int const workers = 1 + static_cast<int>(seed % 4);
    auto const plan = plan_loop(random::loop_of(seed), support::ideal_machine(workers), workers);
    if (!plan) continue;
    ++run;
    auto const loop = with_random_work(*plan, random);
    auto const made = simulate_roles(loop, machine);
    ASSERT_TRUE(made) << seed << ": " << to_text(made.error());
    simulation::RoleRun launch(loop, machine);
    ASSERT_TRUE(launch.run()) << seed;
    Tiles tiles;
    std::size_t count = 0;
    for (auto const& of_sm : launch.records())
      for (auto const& one : of_sm) {
        tiles[{one.tile.iteration, one.tile.stage, one.tile.tile}] = one;
        ++count;
        ASSERT_LE(one.begun, one.multiplied) << seed;
        ASSERT_LE(one.multiplied, one.stored) << seed;
        ASSERT_EQ(one.begun, one.ready + one.results + one.activations + one.weights) << seed;
      }
    std::size_t expected = 0;
    for (auto const& stage : plan->loop.body.stages) expected += static_cast<std::size_t>(stage.blocks());
    ASSERT_EQ(tiles.size(), count) << seed;
    ASSERT_EQ(count, expected * static_cast<std::size_t>(loop.iterations)) << seed;
    ASSERT_EQ(too_early(loop, tiles, simulation::picoseconds(machine.hop_ns)), 0) << seed;
    // The check can fail: nobody waits as long as this.
    if (count > 20 && !plan->loop.body.dependences.empty() && loop.iterations > 1) {
      ASSERT_GT(too_early(loop, tiles, simulation::picoseconds(1e6)), 0) << seed;
    }
  }
  EXPECT_GT(run, 90);
}

using List = std::vector<std::tuple<long long, int, int>>;

List list_of(RoleLoop const& loop, std::size_t worker) {
  List list;
  auto const dealt = simulation::dealt_tiles(loop);
  for (auto const& one : dealt[worker]) list.push_back({one.iteration, one.stage, one.tile});
  return list;
}

TEST(RoleOrder, TilesThatAreAllAlikeAreDealtInTurns) {
  for (int const sms : {1, 3, 4})
    for (int const iterations : {1, 2, 3, 7}) {
      auto loop = support::role_loop(4, 3, iterations);
      loop.work.resize(3);
      loop.plan.plan.launches.front().workers = sms;
      std::vector<List> expected(static_cast<std::size_t>(sms));
      std::size_t ticket = 0;
      for (int n = 0; n < iterations; ++n)
        for (int s = 0; s < 3; ++s)
          for (int t = 0; t < 4; ++t) expected[ticket++ % static_cast<std::size_t>(sms)].push_back({n, s, t});
      for (std::size_t w = 0; w < expected.size(); ++w) EXPECT_EQ(list_of(loop, w), expected[w]) << w;
    }
}

TEST(RoleOrder, TilesAreDealtByTheirBytesAsTheKernelDealsThem) {
  PipelineBuilder builder("uneven");
  auto [t] = builder.dims("t");
  builder.stage("large", {t = 3}).output("a").resources({1024, 32, 0});
  builder.stage("small", {t = 40}).output("b").resources({1024, 32, 0});
  auto const body = builder.build_loop();
  ASSERT_TRUE(body) << to_text(body.error());
  auto plan = plan_loop(*body, support::ideal_machine(4), 4);
  ASSERT_TRUE(plan) << to_text(plan.error());
  RoleLoop loop{*plan, {{.slots = 1, .slot_bytes = 1000}, {.slots = 1, .slot_bytes = 10}}, {4, 0, 0, 4}, 1};
  auto const of_fourth = [&] {
    auto const list = list_of(loop, 3);
    return std::count_if(list.begin(), list.end(), [](auto const& one) { return std::get<1>(one) == 1; });
  };
  EXPECT_EQ(of_fourth(), 10);
  loop.tile_bytes = {100'000, 1024};
  EXPECT_EQ(of_fourth(), 10 + 4);  // what the ring holds ahead: 4 slots of a kilobyte
  loop.rings.slots = 40;
  EXPECT_EQ(of_fourth(), 40);
  auto const made = simulate_roles(loop, support::free_machine());
  ASSERT_TRUE(made) << to_text(made.error());
}

}  // namespace
}  // namespace tessera
