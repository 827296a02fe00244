// SPDX-License-Identifier: Apache-2.0
// Launches with roles whose times are known on paper.
#include "tessera/simulate/role_loop.hpp"
#include "tessera/plan/role_rings.hpp"

#include <gtest/gtest.h>

#include <random>

#include "role_loops.hpp"
#include "support/cases.hpp"
#include "tessera/measure/machine_json.hpp"

namespace tessera {
namespace {

using support::free_machine;
using support::role_loop;

RolePrediction run(RoleLoop const& loop, RoleMachine const& machine) {
  auto const made = simulate_roles(loop, machine);
  EXPECT_TRUE(made) << to_text(made.error());
  return made.value_or(RolePrediction{});
}

std::string refusal(RoleLoop const& loop, RoleMachine const& machine = free_machine()) {
  auto const made = simulate_roles(loop, machine);
  EXPECT_FALSE(made);
  return made ? "" : to_text(made.error());
}

TEST(RoleLoop, ComputingAloneIsSlotsTimesTheirTime) {
  auto loop = role_loop(1, 2, 3);
  loop.work = {{.slots = 4, .slot_bytes = 1, .slot_ns = 100, .end_ns = 50},
               {.slots = 2, .slot_bytes = 1, .slot_ns = 200, .end_ns = 10}};
  for (auto& work : loop.work) work.late_slot_bytes = 1;
  auto const made = run(loop, free_machine());
  EXPECT_NEAR(made.total_ns, 3 * (4 * 100 + 50 + 2 * 200 + 10), 1);
  EXPECT_NEAR(made.steady_ns, 860, 1);
  ASSERT_EQ(made.boundaries.size(), 2u);
  EXPECT_EQ(made.boundaries[0].to, "s0");
  EXPECT_NEAR(made.boundaries[0].still_ns(), 10, 0.1);
  EXPECT_NEAR(made.boundaries[1].still_ns(), 50, 0.1);
}

TEST(RoleLoop, TurnsOfRingsAreAddedWhereSlotsBegin) {
  auto loop = role_loop(1, 1, 1);
  loop.work = {{.slots = 6, .slot_bytes = 1, .slots_per_late_slot = 1, .late_slot_bytes = 1, .slot_ns = 100}};
  auto machine = free_machine();
  machine.turn_ns = 10;
  machine.late_turn_ns = 1000;
  EXPECT_NEAR(run(loop, machine).total_ns, 6 * 1110, 1);
  loop.work[0].slots_per_late_slot = 4;  // of 4 and of 2
  EXPECT_NEAR(run(loop, machine).total_ns, 6 * 110 + 2 * 1000, 1);
}

TEST(RoleLoop, ARingOfOneSlotLoadsAndMultipliesInTurns) {
  auto loop = role_loop(1, 1, 1);
  loop.work = {{.slots = 5, .slot_bytes = 1000, .late_slot_bytes = 1, .slot_ns = 300}};
  auto machine = free_machine();
  machine.dram_gbps = 10;  // a slot: 100 ns
  machine.load_ns = 40;
  loop.rings = {1, 0, 0, 4};
  EXPECT_NEAR(run(loop, machine).total_ns, 5 * (40 + 100 + 300), 1);
  // Two slots: the next one comes while one is multiplied.
  loop.rings = {2, 0, 0, 4};
  EXPECT_NEAR(run(loop, machine).total_ns, 40 + 100 + 5 * 300, 1);
}

TEST(RoleLoop, WhatSlotsInFlightAreKeptFromIsLatency) {
  auto loop = role_loop(1, 1, 1);
  loop.work = {{.slots = 8, .slot_bytes = 1000, .late_slot_bytes = 1}};
  auto machine = free_machine();
  machine.dram_gbps = 10;  // a slot: 100 ns
  machine.load_ns = 300;
  loop.rings = {8, 1, 1, 4};  // one after the other
  EXPECT_NEAR(run(loop, machine).total_ns, 8 * 400, 1);
  loop.rings = {8, 2, 2, 4};  // two in 400 ns
  EXPECT_NEAR(run(loop, machine).total_ns, 3 * 400 + 300 + 2 * 100, 1);
  loop.rings = {8, 0, 0, 4};  // all on their way at once
  EXPECT_NEAR(run(loop, machine).total_ns, 300 + 8 * 100, 1);
}

TEST(RoleLoop, TheFirstSlotsOfATileHaveALimitOfTheirOwn) {
  auto loop = role_loop(1, 1, 1);
  loop.work = {{.slots = 12, .slot_bytes = 1000, .late_slot_bytes = 1}};
  auto machine = free_machine();
  machine.dram_gbps = 10;  // a slot: 100 ns
  machine.load_ns = 300;
  loop.rings = {4, 1, 0, 4};  // 4 one after the other; the fifth waits for none
  EXPECT_NEAR(run(loop, machine).total_ns, 4 * 400 + 8 * 100, 1);
  loop.rings = {4, 0, 1, 4};  // 4 at once; then one after the other
  EXPECT_NEAR(run(loop, machine).total_ns, 300 + 4 * 100 + 8 * 400, 1);
}

TEST(RoleLoop, TheMemoryIsShared) {
  for (int const sms : {1, 2, 16}) {
    auto loop = role_loop(sms, 1, 1);
    loop.work = {{.slots = 50, .slot_bytes = 1000, .late_slot_bytes = 1, .slot_ns = 1}};
    loop.rings = {8, 0, 0, 4};
    auto machine = free_machine();
    machine.dram_gbps = 10;
    auto const made = run(loop, machine);
    EXPECT_NEAR(made.total_ns, 50 * 100 * sms, 2 + sms) << sms;
    EXPECT_GT(made.dram_share, 0.99) << sms;
  }
}

TEST(RoleLoop, ALoaderThatIssuesSlowlyIsInTheWay) {
  auto loop = role_loop(1, 1, 1);
  loop.work = {{.slots = 9, .slot_bytes = 1, .loads_per_slot = 4, .late_slot_bytes = 1}};
  loop.rings = {9, 0, 0, 9};
  auto machine = free_machine();
  machine.load_issue_ns = 100;
  machine.early_warps = 3;
  loop.work[0].late_slot_bytes = 0;                      // nobody's results: nothing of another loader
  EXPECT_NEAR(run(loop, machine).total_ns, 2 * 400, 1);  // the third round is issued at 800
  machine.early_warps = 1;
  EXPECT_NEAR(run(loop, machine).total_ns, 8 * 400, 1);
}

TEST(RoleLoop, AHopStandsAtEachBoundary) {
  for (bool const words : {false, true}) {
    auto loop = role_loop(4, 2, 5, words);
    loop.work.assign(2, {.slots = 2, .slot_bytes = 1, .late_slot_bytes = 1, .slot_ns = 100, .end_ns = 30});
    auto machine = free_machine();
    machine.hop_ns = 700;
    machine.post_ns = 60;
    machine.token_copy_ns = 25;
    double const post = words ? 0 : 60, copy = words ? 25 : 0;
    auto const made = run(loop, machine);
    // Ten tiles, nine boundaries; the last tile is posted, too.
    EXPECT_NEAR(made.total_ns, 10 * (200 + 30 + post) + 9 * (700 + copy), 1) << words;
    for (auto const& one : made.boundaries) {
      EXPECT_NEAR(one.end_ns, 30, 0.1);
      EXPECT_NEAR(one.post_ns, post, 0.1);
      EXPECT_NEAR(one.results_ns, 700, 0.1);
      EXPECT_NEAR(one.activations_ns, copy, 0.1);
      EXPECT_NEAR(one.weights_ns, 0, 0.1);
      EXPECT_NEAR(one.apart_ns, 0, 0.1);
    }
  }
}

// Reading a slot takes as long as multiplying one: what a boundary keeps still is made up for by slots that
// came meanwhile, as far as the ring holds them.
TEST(RoleLoop, ARingHidesABoundaryThatIsShorterThanWhatItHolds) {
  auto loop = role_loop(1, 2, 20);
  loop.work.assign(2, {.slots = 10, .slot_bytes = 1000, .late_slot_bytes = 1, .slot_ns = 50});
  auto machine = free_machine();
  machine.dram_gbps = 10;  // 100 ns a slot
  machine.hop_ns = 400;    // as much as multiplying lags behind reading: 10 * (100 - 50), less one slot
  loop.rings = {10, 0, 0, 10};
  double const reading = 20 * 20 * 100;
  EXPECT_NEAR(run(loop, machine).total_ns, reading, 100);
  loop.rings.slots = 2;  // of 400 ns, 200 are hidden
  EXPECT_GT(run(loop, machine).total_ns, reading + 38 * 150);
  loop.rings.slots = 10;
  machine.hop_ns = 1400;  // 4 slots do not fit, and half of the time to multiply 10 is no time to read
  EXPECT_GT(run(loop, machine).total_ns, reading + 38 * 350);
}

TEST(RoleLoop, MoreSlotsAreNeverSlower) {
  auto loop = role_loop(8, 2, 6);
  loop.work = {{.slots = 12,
                .slot_bytes = 9216,
                .loads_per_slot = 4,
                .late_slot_bytes = 512,
                .slot_ns = 220,
                .end_ns = 1200},
               {.slots = 7,
                .slot_bytes = 8192,
                .loads_per_slot = 6,
                .late_slot_bytes = 768,
                .slot_ns = 165,
                .end_ns = 1200}};
  auto const profile = machine("h200");
  ASSERT_TRUE(profile);
  auto roles = role_machine(*profile);
  roles.dram_gbps /= 3 * 132.0 / 8;
  roles.dram_share = {{0, 1}};  // both change with what is in flight, which grows with the ring
  roles.late_load_ns = {{0, 335}};
  double before = 1e18;
  for (int const slots : {3, 4, 6, 8, 12, 20}) {  // three warps fill them
    loop.rings = {slots, 0, 0, 8};
    auto const total = run(loop, roles).total_ns;
    EXPECT_LE(total, before * 1.001) << slots;
    before = total;
  }
}

TEST(RoleLoop, SlowSmsKeepOthersWaiting) {
  auto loop = role_loop(16, 2, 4);
  loop.work.assign(2, {.slots = 20, .slot_bytes = 1000, .late_slot_bytes = 1, .slot_ns = 1});
  loop.rings = {4, 0, 0, 4};
  auto machine = free_machine();
  machine.dram_gbps = 160;
  EXPECT_NEAR(run(loop, machine).boundaries[0].apart_ns, 0, 10);
  auto const even = run(loop, machine).total_ns;
  machine.slowest_sm = 1.2, machine.fastest_sm = 0.8;
  auto const made = run(loop, machine);
  EXPECT_GT(made.boundaries[0].apart_ns, 50);
  EXPECT_GT(made.boundaries[0].results_ns, 25);
  EXPECT_GT(made.total_ns, even);
}

TEST(RoleLoop, ATileFunctionWaitsForAllThatItReads) {
  auto loop = role_loop(2, 2, 2);
  loop.work = {{.slots = 2, .slot_bytes = 1, .late_slot_bytes = 1, .slot_ns = 100}, {.end_ns = 500}};
  auto machine = free_machine();
  machine.hop_ns = 70;
  EXPECT_NEAR(run(loop, machine).total_ns, 2 * (200 + 500) + 3 * 70, 1);
}

TEST(RoleLoop, CurvesAreStraightBetweenPointsAndFlatBeyond) {
  InFlightCurve const curve = {{10, 1}, {20, 3}};
  EXPECT_EQ(at_bytes(curve, 0), 1);
  EXPECT_EQ(at_bytes(curve, 15), 2);
  EXPECT_EQ(at_bytes(curve, 99), 3);
  EXPECT_EQ(at_bytes({}, 5), 0);
}

TEST(RoleLoop, EveryFigureHasAValueAndASource) {
  auto const profile = machine("h200");
  ASSERT_TRUE(profile);
  auto const roles = role_machine(*profile);
  for (auto const& figure : role_figures()) {
    EXPECT_GT(roles.*figure.member, 0) << figure.name;
    EXPECT_FALSE(figure.source.empty()) << figure.name;
  }
  for (auto const& curve : role_curves()) {
    EXPECT_GT((roles.*curve.member).size(), 2u) << curve.name;
    EXPECT_FALSE(curve.source.empty()) << curve.name;
  }
  EXPECT_EQ(to_text(InFlightCurve{{0, 335}, {47104, 0.5}}), "0 KiB: 335, 46 KiB: 0.5");
  auto changed = roles;
  ASSERT_TRUE(set_role_figure(changed, "turn_ns=1.5e2"));
  EXPECT_EQ(changed.turn_ns, 150);
  for (auto const* const wrong : {"turn_ns", "turn_ns=", "turn_ns=1x", "turn=1", "=1", ""})
    EXPECT_FALSE(set_role_figure(changed, wrong)) << wrong;
}

TEST(RoleLoop, Refusals) {
  auto loop = role_loop(2, 2, 1);
  loop.work.assign(2, {.slots = 2, .slot_bytes = 1, .late_slot_bytes = 1});
  ASSERT_TRUE(simulate_roles(loop, free_machine()));
  auto wrong = loop;
  wrong.work.pop_back();
  EXPECT_EQ(refusal(wrong),
            "error E0506: loop \"roles\" has 2 stages, and there is work for 1\n"
            "   hint: say what a tile of each stage of the body does");
  wrong = loop;
  wrong.work[1].slot_bytes = 0;
  EXPECT_EQ(refusal(wrong),
            "error E0506: the work of stage s1 has a number that no tile can have\n"
            "   hint: give slots of 1 byte or more, 1 load or more to a slot, 1 to 8 warps, times from 0 to "
            "1e9 ns");
  wrong = loop;
  wrong.work[1].late_slot_bytes = 0;
  EXPECT_EQ(refusal(wrong),
            "error E0506: stage s1 reads what stages compute, and loads 0 bytes of it\n"
            "   hint: give late_slot_bytes");
  wrong = loop;
  wrong.tile_bytes = {1};
  EXPECT_EQ(refusal(wrong),
            "error E0506: bytes of tiles of 1 stages; the loop's body has 2\n"
            "   hint: give a number from 0 to 1099511627776 for each stage of the body, or none");
  wrong.tile_bytes = {1, -1};
  EXPECT_NE(refusal(wrong).find("bytes by which tiles are dealt that no tile can load"), std::string::npos);
  wrong = loop;
  wrong.iterations = 0;
  EXPECT_EQ(refusal(wrong),
            "error E0506: 0 iterations of 4 tiles, 8 slots and 8 awaited tiles\n"
            "   hint: simulate 1 iteration or more, of 2e6 tiles and of 3e7 slots and awaited tiles at most");
  wrong.iterations = 1'000'000'000;
  EXPECT_NE(refusal(wrong).find("1000000000 iterations of 4 tiles"), std::string::npos);
  wrong = loop;
  wrong.plan.plan.launches.front().workers = 0;
  EXPECT_NE(refusal(wrong).find("loop \"roles\" is planned as launches that overlap"), std::string::npos);
  wrong = loop;
  auto circle = wrong.plan.loop.body.dependences.front();
  std::swap(circle.consumer, circle.producer);
  wrong.plan.loop.body.dependences.push_back(circle);
  EXPECT_EQ(refusal(wrong),
            "error E0506: the launch gets stuck: stages wait for each other in a circle\n"
            "   hint: make the plan by plan_loop(), which refuses such a loop");
  auto machine = free_machine();
  machine.dram_gbps = 0;
  EXPECT_NE(refusal(loop, machine).find("dram_gbps is 0 1e9 byte/s"), std::string::npos);
  for (auto const value : {1e-9, 0.9e-3}) {
    machine.dram_gbps = value;
    EXPECT_NE(refusal(loop, machine).find("dram_gbps is"), std::string::npos) << value;
    machine = free_machine();
    machine.l2_gbps = value;
    EXPECT_NE(refusal(loop, machine).find("l2_gbps is"), std::string::npos) << value;
  }
  machine = free_machine();
  machine.early_warps = 9;
  EXPECT_NE(refusal(loop, machine).find("early_warps is 9"), std::string::npos);
  machine.early_warps = 1.5;
  EXPECT_NE(refusal(loop, machine).find("early_warps is 1.5"), std::string::npos);
}

// Times are counted in picoseconds, in 64 bits: what could be longer is refused, and all else ends.
TEST(RoleLoop, TimesThatAreNotCounted) {
  auto loop = role_loop(1, 1, 1);
  loop.work = {{.slots = 10'000'000, .slot_bytes = 1, .slot_ns = 1e9}};
  EXPECT_EQ(refusal(loop),
            "error E0506: a launch that may take 1e+16 ns, 4e+15 are counted\n"
            "   hint: give fewer iterations or slots, shorter times, or higher bandwidths");
  if (!support::k_sanitized) {  // as long as is counted
    loop.work[0].slots = 3'900'000;
    EXPECT_NEAR(run(loop, free_machine()).total_ns, 3.9e15, 1e9);
  }
  loop.work = {{.slots = 20, .slot_bytes = 1e4}};
  auto machine = free_machine();
  machine.dram_gbps = 1e-3;
  EXPECT_NEAR(run(loop, machine).total_ns, 2e8, 10);
  machine.dram_share = {{0, 1e-12}};
  EXPECT_NE(refusal(loop, machine).find("are counted"), std::string::npos);
}

// What holds of any loop: no resource does more than it can, and the parts of each SM's time add up.
TEST(RoleLoop, RandomLoopsKeepToWhatResourcesCan) {
  std::mt19937 random(7);
  auto const draw = [&](int least, int most) { return std::uniform_int_distribution(least, most)(random); };
  for (int i = 0; i < 200; ++i) {
    int const sms = draw(1, 8), stages = draw(2, 4), iterations = draw(1, 4);
    auto loop = role_loop(sms, stages, iterations, draw(0, 1) != 0);
    loop.rings = {draw(1, 9), draw(0, 4), draw(0, 4), draw(4, 9)};
    double compute = 0, bytes = 0;
    auto machine = free_machine();
    machine.dram_gbps = draw(10, 1000);
    machine.load_ns = draw(0, 500);
    machine.turn_ns = draw(0, 100);
    machine.hop_ns = draw(0, 1000);
    machine.load_issue_ns = draw(0, 100);
    for (int s = 0; s < stages; ++s) {
      RoleWork work{.slots = draw(0, 12), .slot_bytes = 1.0 * draw(1, 20000)};
      work.late_slot_bytes = draw(1, 1000);
      work.slots_per_late_slot = draw(1, 4);
      work.late_warps = draw(1, 4);
      work.slot_ns = draw(0, 500);
      work.end_ns = draw(0, 500);
      compute += iterations * (work.slots * (work.slot_ns + machine.turn_ns) + work.end_ns);
      bytes += iterations * sms * work.slots * work.slot_bytes;
      loop.work.push_back(work);
    }
    auto const made = run(loop, machine);
    EXPECT_GE(made.total_ns, compute - 1) << i;
    EXPECT_GE(made.total_ns, bytes / machine.dram_gbps - 1) << i;
    EXPECT_LE(made.dram_share, 1.001) << i;
    // All SMs have a tile of each stage and begin together: behind the first tile everything is in a row.
    double sum = 0;
    for (auto const& one : made.stages)
      sum += iterations * (one.multiply_ns + one.weights_ns + one.activations_ns);
    for (auto const& one : made.boundaries)
      sum += (one.to == "s0" ? iterations - 1 : iterations) * one.still_ns();
    EXPECT_LE(sum, made.total_ns + 1) << i;
    auto const again = run(loop, machine);
    EXPECT_EQ(made.total_ns, again.total_ns) << i;
  }
}

// The same refusals as of the kernel (tests/run_gpu/role_rings_test.cpp).
TEST(RoleLoop, RingsThatTheKernelCannotHaveAreRefused) {
  auto loop = role_loop(2, 2, 1);
  loop.work.assign(2, {.slots = 2, .slot_bytes = 1, .late_slot_bytes = 1});
  auto machine = free_machine();
  machine.early_warps = k_early_warps;
  auto const refused = [&](RoleRingSizes const& rings) {
    loop.rings = rings;
    return refusal(loop, machine);
  };
  EXPECT_EQ(refused({0, 0, 0, 4}),
            "error E0564: the early ring has 0 slots, 3 warps fill it\n   hint: use as many slots at least");
  EXPECT_EQ(refused({2, 0, 0, 4}),
            "error E0564: the early ring has 2 slots, 3 warps fill it\n   hint: use as many slots at least");
  EXPECT_EQ(refused({3, 0, 0, 3}),
            "error E0564: the late ring has 3 slots, 4 warps fill it\n   hint: use as many slots at least");
  EXPECT_EQ(refused({41, 0, 0, 4}),
            "error E0564: the early ring has 41 slots, 40 are possible\n   hint: use fewer and larger slots");
  EXPECT_EQ(refused({4, 0, 0, 17}),
            "error E0564: the late ring has 17 slots, 16 are possible\n   hint: use fewer and larger slots");
  EXPECT_EQ(refused({4, 0, -1, 4}),
            "error E0564: -1 slots of the early ring may be on their way at once\n"
            "   hint: ask for 1 or more, or 0: all");
  for (auto const& rings : {RoleRingSizes{3, 0, 0, 4}, {40, 0, 0, 16}}) {
    loop.rings = rings;
    EXPECT_TRUE(simulate_roles(loop, machine));
  }
  // An SM of sm_90 has 227 KB, of which barriers and jobs take 4; slots have whole kilobytes.
  loop.rings = {7, 0, 0, 4};
  loop.work[0].slot_bytes = 28 * 1024 + 1;
  EXPECT_TRUE(simulate_roles(loop, machine));
  loop.work[1].late_slot_bytes = 6 * 1024;
  EXPECT_EQ(refused(loop.rings),
            "error E0564: rings of 232448 bytes and 0 beside them, 228352 are possible\n"
            "   hint: use fewer or smaller slots");
  // Tile functions alone need none.
  loop.work.assign(2, {.end_ns = 1});
  loop.rings = {0, 0, 0, 0};
  EXPECT_TRUE(simulate_roles(loop, machine));
}

// A simulation may ask what other warps would change; they have the same rule.
TEST(RoleLoop, AsManySlotsAsWarpsThatAreAskedFor) {
  auto loop = role_loop(1, 1, 1);
  loop.work = {{.slots = 8, .slot_bytes = 1, .late_slot_bytes = 1, .late_warps = 6}};
  loop.rings = {8, 0, 0, 5};
  EXPECT_EQ(refusal(loop),
            "error E0564: the late ring has 5 slots, 6 warps fill it\n   hint: use as many slots at least");
  loop.work[0].late_warps = 1;
  auto machine = free_machine();
  machine.early_warps = 8;
  loop.rings.slots = 7;
  EXPECT_EQ(refusal(loop, machine),
            "error E0564: the early ring has 7 slots, 8 warps fill it\n   hint: use as many slots at least");
}

}  // namespace
}  // namespace tessera
