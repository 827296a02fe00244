// SPDX-License-Identifier: Apache-2.0
#include "soak/waited_tiles.hpp"

#include <gmock/gmock.h>

#include "support/plans.hpp"

namespace tessera::soak {
namespace {

using support::Policy;
using testing::ElementsAre;
using testing::IsEmpty;

/// Three stages, each of which reads rows of the one before.
Plan plan_by(Mechanism mechanism) {
  Pipeline pipeline;
  pipeline.name = "three";
  for (auto const* const name : {"first", "second", "third"})
    pipeline.stages.push_back(support::make_stage(name, 3, 2));
  for (int consumer : {1, 2})
    pipeline.dependences.push_back(support::row_dependence(pipeline, consumer, consumer - 1));
  return support::make_plan(pipeline, support::ideal_machine(8), mechanism, Policy::row_sync);
}

TEST(WaitedStages, AreThoseWhoseReadersStartMeanwhile) {
  EXPECT_THAT(waited_stages(plan_by(Mechanism::stream_order)), IsEmpty());
  EXPECT_THAT(waited_stages(plan_by(Mechanism::pdl)), IsEmpty()) << "they wait for whole launches";
  for (auto const mechanism : {Mechanism::pdl_tiles, Mechanism::wait_kernel, Mechanism::fused})
    EXPECT_THAT(waited_stages(plan_by(mechanism)), ElementsAre(0, 1)) << to_text(mechanism);
}

TEST(WaitedStages, AreNoneOfASingleWorker) {
  auto plan = plan_by(Mechanism::fused);
  plan.launches.front().workers = 1;
  EXPECT_THAT(waited_stages(plan), IsEmpty());
}

TEST(WaitedStages, AreNoneBeforeALaunchInOrder) {
  auto plan = plan_by(Mechanism::pdl_tiles);
  plan.launches[2].start = LaunchStart::in_order;
  EXPECT_THAT(waited_stages(plan), ElementsAre(0));
}

}  // namespace
}  // namespace tessera::soak
