// SPDX-License-Identifier: Apache-2.0
#include "tessera/plan/sm_claim.hpp"

#include <gmock/gmock.h>

#include "support/plans.hpp"
#include "tessera/plan/progress.hpp"

namespace tessera {
namespace {

using support::ideal_machine;
using support::make_plan;
using support::make_stage;
using support::Policy;

/// `tiles` tiles of gemm1 and `waiting` of gemm2, each of which reads all of gemm1.
Pipeline pair(int tiles, int waiting) {
  Pipeline p;
  p.name = "pair";
  p.stages = {make_stage("gemm1", tiles, 1), make_stage("gemm2", waiting, 1)};
  p.stages[1].operands = {{"a", "gemm1", 0, 0}};
  p.dependences = {support::row_dependence(p, 1, 0)};
  return p;
}

Plan without_wait_kernel(int waiting, MachineProfile const& machine) {
  return make_plan(pair(24, waiting), machine, Mechanism::wait_kernel, Policy::row_sync,
                   {false, true, false});
}

TEST(SmClaim, WhatNeedsNoNumberOfSmsHoldsNone) {
  auto machine = ideal_machine(132);
  for (auto const mechanism :
       {Mechanism::stream_order, Mechanism::pdl, Mechanism::pdl_tiles, Mechanism::fused})
    EXPECT_EQ(sm_claim(make_plan(pair(24, 100), machine, mechanism), machine), (SmClaim{0, 1}))
        << to_text(mechanism);
  // In launch order only the wait kernel itself waits for what has no place.
  machine.dispatches_in_launch_order = true;
  EXPECT_EQ(sm_claim(make_plan(pair(24, 100), machine, Mechanism::wait_kernel), machine), (SmClaim{1, 2}));
}

TEST(SmClaim, OfBlocksThatWaitInAnyOrder) {
  auto const machine = ideal_machine(132);
  for (int const waiting : {1, 40, 100, 131}) {
    auto const plan = without_wait_kernel(waiting, machine);
    ASSERT_TRUE(prove_progress(plan, machine)) << waiting;
    auto const claim = sm_claim(plan, machine);
    EXPECT_EQ(claim, (SmClaim{waiting, waiting + 1}));
    // The number is the fewest indeed.
    auto fewer = machine;
    fewer.sms = claim.needed;
    EXPECT_TRUE(prove_progress(plan, fewer));
    fewer.sms = claim.needed - 1;
    EXPECT_FALSE(prove_progress(plan, fewer));
  }
}

TEST(SmClaim, OfAProducerInClusters) {
  auto const machine = ideal_machine(132);
  EXPECT_EQ(sm_claim(without_wait_kernel(40, machine), machine, {2, 1}), (SmClaim{40, 57}));
}

TEST(SmClaim, OfWorkersThatMustAllBeThere) {
  auto const machine = ideal_machine(132);
  auto plan = make_plan(pair(24, 48), machine, Mechanism::fused);
  plan.launches.front().workers = 100;
  EXPECT_EQ(sm_claim(plan, machine), (SmClaim{0, 1}));
  EXPECT_EQ(sm_claim(plan, machine, {}, {true}), (SmClaim{100, 100}));
  // Half of the consumers draw before the producers.
  auto& tickets = plan.launches.front().tickets;
  for (std::int32_t i = 0; i < 24; ++i) tickets.push_back({1, i});
  for (std::int32_t i = 0; i < 24; ++i) tickets.push_back({0, i});
  for (std::int32_t i = 24; i < 48; ++i) tickets.push_back({1, i});
  ASSERT_TRUE(prove_progress(plan, machine));
  EXPECT_EQ(sm_claim(plan, machine), (SmClaim{100, 100}));
}

TEST(SmClaim, ThoseFitTogetherThatFindTheirSmsBesideWhatTheOthersHold) {
  SmClaim const none{}, forty{40, 41}, hundred{100, 101}, all{132, 132};
  EXPECT_TRUE(fit_together({}, 132));
  EXPECT_TRUE(fit_together({hundred, none, none}, 132));
  EXPECT_FALSE(fit_together({hundred, hundred}, 132));
  EXPECT_TRUE(fit_together({hundred, hundred}, 201));
  EXPECT_FALSE(fit_together({hundred, hundred}, 200));
  EXPECT_TRUE(fit_together({forty, forty, forty}, 132));
  EXPECT_FALSE(fit_together({forty, forty, forty, forty}, 132));
  EXPECT_TRUE(fit_together({all}, 132));
  EXPECT_FALSE(fit_together({all, forty}, 132));
  EXPECT_FALSE(fit_together({all, none}, 132)) << "what waits for all SMs may keep others off them meanwhile";
}

}  // namespace
}  // namespace tessera
