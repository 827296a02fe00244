// SPDX-License-Identifier: Apache-2.0
// Iterations of a loop written out as one plan.
#include <gmock/gmock.h>

#include <tessera/describe/dsl.hpp>
#include <tessera/measure/machine_json.hpp>
#include <tessera/plan/written_out.hpp>

#include "support/assert_ok.hpp"

namespace tessera {
namespace {

Loop ring() {
  PipelineBuilder pipeline("ring");
  auto [x] = pipeline.dims("x");
  auto step = pipeline.stage("step", {x = 8});
  pipeline.depends(step(x), earlier(step((x + 1) % 8))).through("before");
  pipeline.each_iteration("step");
  auto const loop = pipeline.build_loop();
  return loop ? *loop : Loop{};
}

TEST(WrittenOut, LaunchesWaitForEachOther) {
  auto machine_of = machine("h200");
  ASSERT_OK(machine_of);
  auto const early = plan_launches_written_out(ring(), *machine_of, 4);
  ASSERT_OK(early);
  ASSERT_EQ(early->launches.size(), 4u);
  EXPECT_EQ(early->launches[1].start, LaunchStart::early);
  EXPECT_EQ(kept_by(*early, early->dependences.front()), KeptBy::grid_wait);
  for (auto const& stage : early->stages) EXPECT_EQ(stage.persistent_blocks, 0);
  machine_of->has_pdl = false;
  auto const in_order = plan_launches_written_out(ring(), *machine_of, 4);
  ASSERT_OK(in_order);
  EXPECT_TRUE(is_stream_order(*in_order));
}

TEST(WrittenOut, OnePersistentLaunch) {
  auto const of = machine("h200");
  ASSERT_OK(of);
  auto const plan = plan_persistent_written_out(ring(), *of, 4, 8);
  ASSERT_OK(plan);
  ASSERT_EQ(plan->launches.size(), 1u);
  EXPECT_EQ(plan->launches.front().workers, 8);
  EXPECT_EQ(kept_by(*plan, plan->dependences.front()), KeptBy::semaphores);
  auto const many = plan_persistent_written_out(ring(), *of, 4, 1000000);
  ASSERT_FALSE(many);
  EXPECT_EQ(many.error().front().code, "E0301");
  EXPECT_FALSE(plan_persistent_written_out(ring(), *of, 4, -1));
  EXPECT_FALSE(plan_launches_written_out(ring(), *of, 0));
}

}  // namespace
}  // namespace tessera
