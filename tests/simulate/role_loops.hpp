// SPDX-License-Identifier: Apache-2.0
// Loops with roles for tests of their simulator, and a machine on which nothing takes time.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "support/plans.hpp"
#include "tessera/describe/dsl.hpp"
#include "tessera/simulate/role_loop.hpp"

namespace tessera::support {

/// Memory that is fast enough not to count, and no latency.
inline RoleMachine free_machine() {
  RoleMachine machine;
  machine.dram_gbps = machine.l2_gbps = machine.sm_load_gbps = 1e9;
  return machine;
}

/// Stages s0, s1, ...: every tile reads all tiles of the stage before, and those of s0 all of the last stage
/// an iteration before. A tile for each SM. One stage alone reads nothing.
inline RoleLoop role_loop(int sms, int stages, long long iterations, bool words = false) {
  PipelineBuilder builder("roles");
  auto [t] = builder.dims("t");
  std::vector<StageHandle> made;
  std::vector<std::string> outputs;
  for (int s = 0; s < stages; ++s) {
    outputs.push_back("b" + std::to_string(s));
    auto stage = builder.stage("s" + std::to_string(s), {t = sms}).output(outputs.back());
    stage.resources({1024, 32, 0});
    made.push_back(stage);
  }
  auto const last = made.size() - 1;
  for (std::size_t s = 1; s < made.size(); ++s)
    builder.depends(made[s](t), made[s - 1](tessera::range(0, sms))).through("in");
  if (stages > 1) {
    builder.depends(made[0](t), earlier(made[last](tessera::range(0, sms)))).through("in");
    builder.copies(outputs[last], 2);
  }
  auto const loop = builder.build_loop();
  EXPECT_TRUE(loop) << to_text(loop.error());
  auto plan = plan_loop(*loop, ideal_machine(sms), sms, words ? outputs : std::vector<std::string>{});
  EXPECT_TRUE(plan) << to_text(plan.error());
  plan->loop.body.where = {};
  return {std::move(*plan), {}, {4, 0, 4}, iterations};
}

}  // namespace tessera::support
