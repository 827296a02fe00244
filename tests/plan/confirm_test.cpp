// SPDX-License-Identifier: Apache-2.0
#include "tessera/plan/confirm.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/examples.hpp"
#include "tessera/plan/build.hpp"
#include "tessera/plan/machine_values.hpp"
#include "tessera/plan/plan_json.hpp"
#include "tessera/simulate/simulate.hpp"

namespace tessera {
namespace {

Plan plan_of(Mechanism mechanism, MachineProfile const& machine) {
  auto pipeline = examples::mlp(8, 16, 4, 2);
  Recipe recipe;
  recipe.mechanism = mechanism;
  return build_plan(check(pipeline).value(), machine, recipe).value();
}

std::string refusal(Expected<void> const& answer) { return answer ? "" : to_text(answer.error()); }

TEST(Confirm, WhatThePlannerMadeHolds) {
  auto const machine = examples::machine_of(4);
  for (auto const mechanism : {Mechanism::stream_order, Mechanism::pdl, Mechanism::wait_kernel,
                               Mechanism::pdl_tiles, Mechanism::fused}) {
    auto plan = plan_of(mechanism, machine);
    EXPECT_EQ(refusal(confirm_own(plan, machine)), "") << to_text(mechanism);
    auto read = parse_plan(print_plan(plan), "plan.json").value();
    EXPECT_EQ(refusal(confirm_own(read, machine)), "") << to_text(mechanism);
    EXPECT_EQ(refusal(confirm_own(read, *read.machine_values)), "") << "by the values that it brings";
  }
}

TEST(Confirm, AMissingProofIsFound) {
  auto const machine = examples::machine_of(4);
  auto plan = plan_of(Mechanism::pdl_tiles, machine);
  auto const proof = plan.proof;
  plan.proof.clear();
  ASSERT_TRUE(confirm_own(plan, machine));
  EXPECT_EQ(plan.proof, proof);
}

TEST(Confirm, AProofOfOtherNumbersIsRefusedWithBoth) {
  auto const machine = examples::machine_of(4);
  auto plan = plan_of(Mechanism::fused, machine);
  auto const proof = plan.proof;
  auto const digit = plan.proof.find_first_of("0123456789");
  ASSERT_NE(digit, std::string::npos) << plan.proof;
  plan.proof.insert(digit, "9");
  auto const said = refusal(confirm_own(plan, machine));
  EXPECT_THAT(said, testing::HasSubstr("error E0264: the proof in this plan is not the one of its launches"));
  EXPECT_THAT(said, testing::HasSubstr("the file says \"9"));
  EXPECT_THAT(said, testing::HasSubstr(std::string("proved is \"") + proof[digit]));
}

TEST(Confirm, WhatCanHangIsRefusedWhateverItSays) {
  auto machine = examples::machine_of(4);
  auto plan = plan_of(Mechanism::fused, machine);
  plan.launches.front().workers = 1000;
  EXPECT_THAT(refusal(confirm_own(plan, machine)), testing::HasSubstr("error E0302"));
}

TEST(Confirm, RoomThatIsNotThereIsRefused) {
  auto const machine = examples::machine_of(4);
  auto plan = plan_of(Mechanism::stream_order, machine);
  ++plan.stages[1].occupancy;
  EXPECT_THAT(refusal(confirm_own(plan, machine)),
              testing::HasSubstr("blocks of gemm2 are said to fit an SM of"));
}

TEST(Confirm, EarlyLaunchesNeedTheMachineToHaveThem) {
  auto machine = examples::machine_of(4);
  auto plan = plan_of(Mechanism::pdl, machine);
  machine.has_pdl = false;
  auto const said = confirm(plan, machine);
  ASSERT_FALSE(said);
  EXPECT_EQ(said.error().front().code, "E0303");
  auto const simulated = simulate(plan, machine);
  ASSERT_FALSE(simulated) << "and the simulator refuses by itself";
  EXPECT_EQ(simulated.error().front().code, "E0303");
}

TEST(Confirm, KernelsAreNotAskedForWhatTheyCannot) {
  auto const machine = examples::machine_of(4);
  struct Case {
    Mechanism mechanism;
    void (*change)(Plan&);
    char const* words;
  };
  Case const cases[] = {
      {Mechanism::fused, [](Plan& p) { p.pipeline.stages[1].can.fuse = false; }, "be part of a fused launch"},
      {Mechanism::pdl, [](Plan& p) { p.pipeline.stages[1].can.run_alone = false; }, "be a launch of its own"},
      {Mechanism::pdl, [](Plan& p) { p.pipeline.stages[1].can.start_early = false; },
       "start before the kernel before it is complete"},
      {Mechanism::wait_kernel, [](Plan& p) { p.pipeline.stages[0].can.run_beside = false; },
       "say that its blocks have started"},
      {Mechanism::pdl_tiles, [](Plan& p) { p.pipeline.stages[0].can.post = false; }, "post its tiles"},
      {Mechanism::pdl_tiles, [](Plan& p) { p.pipeline.stages[1].can.wait = false; }, "wait for tiles"},
      {Mechanism::wait_kernel, [](Plan& p) { p.stages[1].persistent_blocks = 3; },
       "run as a persistent grid of 3 blocks beside others"},
      {Mechanism::stream_order,
       [](Plan& p) {
         p.stages[1].persistent_blocks = 3;
         p.pipeline.stages[1].can.persist = false;
       },
       "run as a persistent grid of 3 blocks"},
      {Mechanism::pdl_tiles,
       [](Plan& p) {
         p.stages[1].reorder_loads = true;
         p.pipeline.stages[1].can.load_early = false;
       },
       "load before it waits"},
  };
  for (auto const& [mechanism, change, words] : cases) {
    auto plan = plan_of(mechanism, machine);
    ASSERT_TRUE(confirm(plan, machine)) << words;
    change(plan);
    auto const said = confirm(plan, machine);
    ASSERT_FALSE(said) << words;
    EXPECT_THAT(to_text(said.error()), testing::HasSubstr(std::string("cannot ") + words));
    EXPECT_EQ(said.error().front().code, "E0303");
  }
}

TEST(MachineValues, HashTellsEveryValueAndNothingElse) {
  auto const machine = examples::machine_of(4);
  auto const pipeline = examples::mlp(8, 16, 4, 2);
  auto const hash = [&](MachineProfile const& of) { return hash_of_values(planning_values(of, pipeline)); };
  auto changed = machine;
  changed.name = "another";
  changed.sources["sms"] = "somewhere else";
  changed.kernels["of no stage"] = {1, 2, 3, 1, "test"};
  EXPECT_EQ(hash(changed), hash(machine));
  changed.post_ns += 0.25;
  EXPECT_NE(hash(changed), hash(machine));
  changed = machine;
  changed.has_pdl = !changed.has_pdl;
  EXPECT_NE(hash(changed), hash(machine));
}

TEST(MachineValues, DifferencesAreNamedWithBothValues) {
  auto const machine = examples::machine_of(4);
  auto plan = plan_of(Mechanism::stream_order, machine);
  EXPECT_TRUE(other_values(plan, machine).empty());
  auto changed = machine;
  changed.sms = 5;
  changed.kernels["k"] = {10, 2, 3, 1, "test"};
  plan.pipeline.stages[0].kernel = "k";
  auto const warnings = other_values(plan, changed);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings.front().severity, Severity::warning);
  EXPECT_THAT(warnings.front().notes, testing::Contains("sms is 4 in the plan, 5 in the profile"));
  EXPECT_THAT(warnings.front().notes,
              testing::Contains("kernels.k.slice_cycles is none in the plan, 10 in the profile"));
  plan.machine_values.reset();
  EXPECT_TRUE(other_values(plan, changed).empty()) << "an old file says nothing";
}

}  // namespace
}  // namespace tessera
