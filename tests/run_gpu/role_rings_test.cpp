// SPDX-License-Identifier: Apache-2.0
// An operation that fills both rings of a launch with roles: any sizes, a tile that never comes, what is
// refused.
#include <cstdio>

#include "run_gpu/role_data.hpp"
#include "support/stencil.hpp"
#include "tessera/measure/machine_json.hpp"
#include "tessera/run/role_registers.cuh"

namespace tessera {
namespace {

using role_tiles::Mixer;
using role_tiles::mixing_plan;
using role_tiles::options_for;
using role_tiles::RoleLaunch;
using role_tiles::sizes;
using testing::HasSubstr;
using vector_chain::Stream;

TEST_F(RoleLaunch, RingsOfAnyLengthAreRight) {
  std::mt19937 random(17);
  auto const one_of = [&](std::initializer_list<int> values) {
    return values.begin()[random() % values.size()];
  };
  Stream const stream;
  for (unsigned trial = 0; trial < 120; ++trial) {
    auto of = sizes(64 * one_of({1, 2, 3, 4, 5}), one_of({1, 2, 4, 8, 16}), one_of({1, 2, 3, 7, 8}));
    of.w_copies = one_of({1, 2, 3});
    of.y_copies = one_of({1, 2});
    of.z_copies = one_of({2, 3});
    of.early_blocks = one_of({1, 2, 4});
    of.late_blocks = one_of({1, 2, 4});
    of.by_stores = one_of({0, 1});
    int const workers = one_of({1, 2, 7, 40, machine.sms}), slots = one_of({3, 4, 5, 6, 7, 8, 9});
    int const late_slots = one_of({4, 5, 6, 7, 8});
    auto const plan = mixing_plan(of, machine, workers);
    ASSERT_OK(plan);
    Mixer mixer(of, trial);
    for (int const in_flight : {0, 1, 2, 3, slots - 1, slots, slots + 1}) {
      SCOPED_TRACE(testing::Message()
                   << of.features << " features, " << of.rows << " rows, " << of.tokens << " tokens, "
                   << workers << " workers, " << slots << " slots of " << of.early_blocks << ", " << in_flight
                   << " in flight, " << late_slots << " late slots of " << of.late_blocks << ", by stores "
                   << of.by_stores << ", copies " << of.y_copies << " " << of.z_copies << ", trial "
                   << trial);
      auto options = options_for(of, slots, in_flight, late_slots);
      options.rings.in_flight_within = one_of({0, 1, 2, slots - 1, slots + 1});
      options.starts_early = trial % 2 == 1;
      options.dealing = trial % 3 == 1 ? Dealing::queue : Dealing::lists;
      if (trial % 3 == 2) options.tile_bytes = {2LL * of.rows * of.features, 0};
      auto chain = role_tiles::mixing(*plan, mixer.arguments(), options);
      ASSERT_OK(chain);
      for (int const iterations : {1, 5, 2}) {
        ASSERT_OK(chain->launch(stream, iterations));
        ASSERT_OK(chain->finish());
        mixer.step(iterations);
        ASSERT_EQ(mixer.found(iterations), mixer.expected()) << iterations << " iterations";
      }
    }
  }
}

TEST_F(RoleLaunch, ManyIterationsOfAnOperationWithRolesAreRight) {
  auto of = sizes(128, 1, 2);
  of.w_copies = 3;
  for (int const by_stores : {0, 1}) {
    of.by_stores = by_stores;
    auto const plan = mixing_plan(of, machine, machine.sms - 1);
    ASSERT_OK(plan);
    Mixer mixer(of, 3);
    auto chain = role_tiles::mixing(*plan, mixer.arguments(), options_for(of, 5, 2, 4));
    ASSERT_OK(chain);
    auto graph = chain->capture(1000);
    ASSERT_OK(graph);
    Stream const stream;
    for (int replay = 0; replay < 3; ++replay) {
      ASSERT_OK(graph->launch(stream));
      ASSERT_OK(chain->finish());
      mixer.step(1000);
      ASSERT_EQ(mixer.found(1000), mixer.expected()) << by_stores << " " << replay;
    }
  }
}

TEST_F(RoleLaunch, AMissingPostIsNamedAndTheNextLaunchIsRight) {
  for (int const by_stores : {0, 1}) {
    auto of = sizes(128, 8, 4);
    of.by_stores = by_stores;
    of.unposted_tile = 3;
    of.unposted_iteration = 2;
    auto const plan = mixing_plan(of, machine, 7);
    ASSERT_OK(plan);
    Mixer mixer(of, 4);
    auto options = options_for(of, 4, 2, 4);
    options.chain.deadline_seconds = 0.05;
    auto chain = role_tiles::mixing(*plan, mixer.arguments(), options);
    ASSERT_OK(chain);
    Stream const stream;
    for (int round = 0; round < 2; ++round) {
      ASSERT_OK(chain->launch(stream, 10));
      auto const stalled = chain->finish();
      ASSERT_FALSE(stalled);
      EXPECT_EQ(stalled.error().front().code, "E0520");
      EXPECT_THAT(stalled.error().front().message, HasSubstr("waits for "));
      if (round == 0) std::printf("%s\n", to_text(stalled.error()).c_str());
    }
    mixer.mixing.unposted_tile = -1;
    mixer.update();
    mixer.start_again();
    for (int const iterations : {10, 3}) {
      ASSERT_OK(chain->launch(stream, iterations));
      ASSERT_OK(chain->finish());
      mixer.step(iterations);
      ASSERT_EQ(mixer.found(iterations), mixer.expected());
    }
  }
}

TEST_F(RoleLaunch, ChainsOfOneKernelWithOtherRingsAreRightSideBySide) {
  auto const of = sizes(192, 4, 3);
  auto const plan = mixing_plan(of, machine, 48);
  ASSERT_OK(plan);
  Mixer large_mixer(of, 5), small_mixer(of, 6);
  auto large = role_tiles::mixing(*plan, large_mixer.arguments(), options_for(of, 40, 0, 8));
  ASSERT_OK(large);
  auto small = role_tiles::mixing(*plan, small_mixer.arguments(), options_for(of, 3, 1, 4));
  ASSERT_OK(small);
  Stream const streams[2];
  for (int round = 0; round < 10; ++round) {
    ASSERT_OK(small->launch(streams[0], 4));
    ASSERT_OK(large->launch(streams[1], 6));
    ASSERT_OK(large->finish());
    ASSERT_OK(small->finish());
    large_mixer.step(6);
    small_mixer.step(4);
    ASSERT_EQ(large_mixer.found(6), large_mixer.expected()) << round;
    ASSERT_EQ(small_mixer.found(4), small_mixer.expected()) << round;
  }
}

// ---- refusals, without a GPU

RoleRings rings(int slots, int slot_bytes, int late_slots, int late_slot_bytes) {
  RoleRings of;
  of.slots = slots, of.slot_bytes = slot_bytes;
  of.late_slots = late_slots, of.late_slot_bytes = late_slot_bytes;
  return of;
}
std::string refusal(RoleRings const& of, int argument_bytes) {
  auto const checked = check_rings(of, argument_bytes, {});
  return checked ? "accepted" : to_text(checked.error());
}

TEST(WithoutDevice, RingsThatALaunchWithRolesCannotHave) {
  EXPECT_EQ(refusal(rings(0, 0, 0, 0), 0), "accepted");  // tile functions alone
  EXPECT_EQ(refusal(rings(0, 0, 0, 0), 8),
            "error E0564: the early ring has 0 slots, 3 warps fill it\n   hint: use as many slots at least");
  EXPECT_THAT(refusal(rings(3, 1024, 0, 0), 8), HasSubstr("the late ring has 0 slots, 4 warps fill it"));
  EXPECT_THAT(refusal(rings(0, 0, 4, 1024), 8), HasSubstr("the early ring has 0 slots, 3 warps fill it"));
  EXPECT_EQ(refusal(rings(3, 1024, 4, 1024), 8), "accepted");
  EXPECT_EQ(refusal(rings(k_role_slots, 1024, k_role_late_slots, 2048), k_role_argument_bytes), "accepted");
  EXPECT_EQ(refusal(rings(41, 1024, 4, 1024), 0),
            "error E0564: the early ring has 41 slots, 40 are possible\n"
            "   hint: use fewer and larger slots");
  EXPECT_THAT(refusal(rings(-1, 1024, 4, 1024), 0), HasSubstr("the early ring has -1 slots"));
  EXPECT_THAT(refusal(rings(4, 1024, 17, 1024), 0), HasSubstr("the late ring has 17 slots, 16 are possible"));
  EXPECT_THAT(refusal(rings(4, 1024, -1, 1024), 0), HasSubstr("the late ring has -1 slots"));
  for (int const bytes : {0, -1024, 1000, 1536}) {
    EXPECT_THAT(refusal(rings(4, bytes, 4, 1024), 0),
                HasSubstr("a slot of the early ring has " + std::to_string(bytes)));
    EXPECT_THAT(refusal(rings(4, 1024, 4, bytes), 0),
                HasSubstr("a slot of the late ring has " + std::to_string(bytes)));
  }
  EXPECT_THAT(refusal(rings(2, 1024, 4, 1024), 0), HasSubstr("the early ring has 2 slots, 3 warps fill it"));
  EXPECT_THAT(refusal(rings(8, 32768, 4, 1024), 0), HasSubstr("rings of 266240 bytes and 0 beside them"));
  // As an int the sum would be 24576.
  EXPECT_THAT(refusal(rings(40, 107374592, 4, 1024), 0), HasSubstr("rings of 4294987776 bytes"));
  auto in_flight = rings(4, 1024, 4, 1024);
  in_flight.in_flight = -1;
  EXPECT_EQ(refusal(in_flight, 0),
            "error E0564: -1 slots of the early ring may be on their way at once\n"
            "   hint: ask for 1 or more, or 0: all");
  in_flight.in_flight = 0, in_flight.in_flight_within = -2;
  EXPECT_THAT(refusal(in_flight, 0), HasSubstr("-2 slots of the early ring may be on their way at once"));
  EXPECT_THAT(refusal(rings(4, 1024, 4, 1024), 264),
              HasSubstr("an operation has 264 bytes of arguments, 256 are possible"));
}

TEST(WithoutDevice, ClustersThatALaunchWithRolesCannotHave) {
  auto const refused = [](int blocks, Dealing dealing, int workers) {
    auto const checked = check_cluster(blocks, dealing, workers, {});
    return checked ? "accepted" : to_text(checked.error());
  };
  EXPECT_EQ(refused(1, Dealing::queue, 131), "accepted");
  EXPECT_EQ(refused(2, Dealing::lists, 132), "accepted");
  EXPECT_EQ(refused(0, Dealing::lists, 132),
            "error E0564: a launch in clusters of 0 blocks\n   hint: ask for 1 to 8");
  EXPECT_THAT(refused(16, Dealing::lists, 128), HasSubstr("clusters of 16 blocks"));
  EXPECT_THAT(refused(2, Dealing::lists, 131), HasSubstr("clusters of 2 blocks of 131 workers"));
  EXPECT_THAT(refused(2, Dealing::queue, 132), HasSubstr("clusters of 2 blocks that draw their tiles"));
}

TEST(WithoutDevice, TilesThatCannotWaitForOneAnother) {
  auto const h200 = machine("h200");
  ASSERT_OK(h200);
  auto const refused = [&](std::vector<int> const& stages, int workers, Dealing dealing) {
    auto const plan = mixing_plan(sizes(128, 8, 1), *h200, workers);  // stages of 16 tiles
    if (!plan) return to_text(plan.error());
    auto const checked = check_meeting(stages, dealing, *plan);
    return checked ? std::string("accepted") : to_text(checked.error());
  };
  EXPECT_EQ(refused({}, 5, Dealing::queue), "accepted");
  EXPECT_EQ(refused({0}, 16, Dealing::lists), "accepted");
  EXPECT_THAT(refused({0}, 5, Dealing::lists),
              HasSubstr("16 tiles of mix wait for one another, by 5 workers"));
  EXPECT_THAT(refused({0}, 8, Dealing::queue), HasSubstr("and blocks draw their tiles"));
  EXPECT_THAT(refused({99}, 8, Dealing::lists), HasSubstr("tiles of stage 99 wait for one another"));
  EXPECT_THAT(refused({-1}, 8, Dealing::lists), HasSubstr("give numbers of stages, from 0 on"));
}

TEST(WithoutDevice, TilesThatCannotBeMissed) {
  auto const h200 = machine("h200");
  ASSERT_OK(h200);
  auto const plan = mixing_plan(sizes(128, 8, 1), *h200, 5);  // stages of 16 tiles
  ASSERT_OK(plan);
  auto const refused = [&](MissedTile const& missed, Dealing dealing) {
    auto const checked = check_missed(missed, dealing, *plan);
    return checked ? std::string("accepted") : to_text(checked.error());
  };
  EXPECT_TRUE(check_missed({}, Dealing::queue, *plan));
  EXPECT_EQ(refused({0, 1023, 15}, Dealing::lists), "accepted");
  EXPECT_THAT(refused({0, 0, 16}, Dealing::lists),
              testing::EndsWith("error E0564: tile 16 of stage 0 in iteration 0 is to be missed\n"
                                "   hint: name a tile of the loop's body in iterations 0 to 1023, and take "
                                "Dealing::lists"));
  for (auto const& none : {MissedTile{-1, 0, 0}, {99, 0, 0}, {0, -1, 0}, {0, 1024, 0}, {0, 0, -1}})
    EXPECT_THAT(refused(none, Dealing::lists), HasSubstr("is to be missed"));
  EXPECT_THAT(refused({0, 0, 0}, Dealing::queue), HasSubstr("take Dealing::lists"));
}

TEST(WithoutDevice, BlocksOfAClusterComputeNeighbouringTiles) {
  auto const refused = [](std::vector<StageToDeal> const& stages, int workers, int blocks) {
    auto const checked = check_neighbours(deal(stages, workers, 0), blocks, {});
    return checked ? "accepted" : to_text(checked.error());
  };
  EXPECT_EQ(refused({{132, 1}, {132, 1}}, 132, 2), "accepted");
  EXPECT_EQ(refused({{132, 1}, {132, 1}}, 132, 4), "accepted");
  EXPECT_EQ(refused({{132, 1}, {9, 1}, {132, 1}}, 132, 1), "accepted");
  // Nine tiles go to the first nine workers; the next stage begins with the tenth.
  EXPECT_THAT(refused({{132, 1}, {9, 1}, {132, 1}}, 132, 2),
              HasSubstr("blocks of a cluster of 2 compute tile"));
  EXPECT_THAT(refused({{131, 1}, {132, 1}}, 132, 2),
              HasSubstr("give every stage as many tiles as there are"));
}

TEST(WithoutDevice, RegistersAreDividedBetweenWholeWarpgroups) {
  auto const divided = [](int computers, int loaders, int wanted) {
    auto const registers = detail::divide_registers(computers, loaders, wanted);
    return std::pair(registers.loader, registers.computer);
  };
  EXPECT_EQ(divided(256, 256, 56), std::pair(56, 200));
  EXPECT_EQ(divided(128, 256, 56), std::pair(56, 240));  // 168 each; no thread may have more than 240
  EXPECT_EQ(divided(384, 256, 56), std::pair(56, 120));  // 96 each
  EXPECT_EQ(divided(256, 256, 0), std::pair(0, 0));      // an operation does not say
  EXPECT_EQ(divided(256, 256, 128), std::pair(0, 0));    // an even share
  EXPECT_EQ(divided(96, 256, 56), std::pair(0, 0));
  EXPECT_EQ(divided(256, 224, 56), std::pair(0, 0));
  for (int computers = 128; computers <= 768; computers += 128)
    for (int wanted = 56; wanted <= 240; wanted += 8) {
      auto const [loader, computer] = divided(computers, 256, wanted);
      EXPECT_LE(loader * 256 + computer * computers, 65536) << computers << ' ' << wanted;
    }
}

TEST(WithoutDevice, BytesOfTilesThatAreNone) {
  auto const refusal = [](std::vector<long long> const& bytes, Dealing dealing = Dealing::lists) {
    auto const checked = check_dealing(dealing, bytes, 2, {});
    return checked ? "accepted" : to_text(checked.error());
  };
  EXPECT_EQ(refusal({}), "accepted");
  EXPECT_EQ(refusal({}, Dealing::queue), "accepted");
  EXPECT_EQ(refusal({0, k_most_tile_bytes}), "accepted");
  EXPECT_EQ(refusal({1}),
            "error E0564: bytes of tiles of 1 stages; the loop's body has 2\n"
            "   hint: give a number for each stage of the body, or none");
  EXPECT_EQ(refusal({1, -1}),
            "error E0564: a tile of stage 1 of the body loads -1 bytes\n   hint: give 0 to 1099511627776");
  EXPECT_THAT(refusal({k_most_tile_bytes + 1, 1}), HasSubstr("a tile of stage 0 of the body loads"));
  EXPECT_EQ(refusal({1, 1}, Dealing::queue),
            "error E0564: bytes of tiles of 2 stages for blocks that draw their tiles\n"
            "   hint: leave tile_bytes out, or take Dealing::lists");
}

TEST(WithoutDevice, BytesOfTilesAreOfStagesOfTheBody) {
  auto const h200 = machine("h200");
  ASSERT_OK(h200);
  auto const plan = mixing_plan(sizes(128, 8, 1), *h200, 5);  // a period of two iterations of 16 tiles each
  ASSERT_OK(plan);
  auto const tables = describe_loop(*plan);
  ASSERT_OK(tables);
  RoleOptions options;
  options.tile_bytes = {100, 0};
  auto const lists = deal(*plan, *tables, options);
  long long most = 0;
  for (std::size_t w = 0; w < 5; ++w) {
    long long of_mix = 0;
    for (int i = 0; i < lists.pitch; ++i) {
      auto const& one = lists.tiles[w * static_cast<std::size_t>(lists.pitch) + static_cast<std::size_t>(i)];
      of_mix += one.tile >= 0 && one.stage % 2 == 0;
    }
    most = std::max(most, of_mix);
  }
  // 32 tiles of mix to a period.
  EXPECT_LE(most, (32 * lists.periods + 4) / 5);
  options = {};
  options.dealing = Dealing::queue;
  EXPECT_EQ(deal(*plan, *tables, options).tiles.size(), 64u);
}

TEST(WithoutDevice, LoopsOfTheOperationWithRolesCanBePlanned) {
  auto const h200 = machine("h200");
  ASSERT_OK(h200);
  for (int const y_copies : {1, 2})
    for (int const z_copies : {2, 3})
      for (int const workers : {1, 7, h200->sms}) {
        auto of = sizes(128, 16, 1);
        of.y_copies = y_copies;
        of.z_copies = z_copies;
        ASSERT_OK(mixing_plan(of, *h200, workers));
      }
}

TEST(WithoutDevice, ALoopWithRolesAndRingsThatItCannotHave) {
  auto const h200 = machine("h200");
  ASSERT_OK(h200);
  auto const plan = mixing_plan(sizes(64, 8, 1), *h200, 4);
  ASSERT_OK(plan);
  RoleOptions options;
  options.rings = rings(2, 1024, 4, 1024);
  auto const chain = role_tiles::one_operation(*plan, options);
  ASSERT_FALSE(chain);
  EXPECT_EQ(chain.error().front().code, "E0564");
}

TEST(WithoutDevice, AnotherNumberOfOperationsIsRefused) {
  auto const h200 = machine("h200");
  ASSERT_OK(h200);
  auto plan = mixing_plan(sizes(64, 8, 1), *h200, 4);
  ASSERT_OK(plan);
  RoleOptions options;
  auto chain = role_tiles::one_operation(*plan, options);
  ASSERT_FALSE(chain);
  EXPECT_THAT(to_text(chain.error()), HasSubstr("E0564: the early ring has 0 slots"));
  options.rings = rings(3, 1024, 4, 1024);
  chain = role_tiles::one_operation(*plan, options);
  ASSERT_FALSE(chain);
  EXPECT_THAT(to_text(chain.error()),
              HasSubstr("error E0510: loop \"mixing\" needs 2 operations, 1 were given\n"
                        "   hint: give one for each of its 2 stages, or name those that share one"));
  plan->operations = {2, 0};
  chain = role_tiles::one_operation(*plan, options);
  ASSERT_FALSE(chain);
  EXPECT_THAT(to_text(chain.error()), HasSubstr("loop \"mixing\" needs 3 operations, 1 were given\n"
                                                "   hint: its 2 stages name operations from 0 to 2"));
}

TEST(WithoutDevice, RolesNeedAPersistentLaunch) {
  auto const h200 = machine("h200");
  ASSERT_OK(h200);
  auto const persistent = mixing_plan(sizes(64, 8, 1), *h200, 4);
  ASSERT_OK(persistent);
  EXPECT_TRUE(check_persistent(*persistent));
  auto const launches = plan_loop_launches(support::stencil(8), *h200);
  ASSERT_OK(launches);
  auto const refused = check_persistent(*launches);
  ASSERT_FALSE(refused);
  EXPECT_THAT(to_text(refused.error()), HasSubstr("planned as launches that overlap"));
}

}  // namespace
}  // namespace tessera
