// SPDX-License-Identifier: Apache-2.0
// What the proof accepts must finish wherever a plan can be run without a GPU.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <atomic>
#include <memory>

#include "support/plans.hpp"
#include "support/property.hpp"
#include "support/random_plan.hpp"
#include "tessera/plan/progress.hpp"
#include "tessera/run/interpret.hpp"
#include "tessera/simulate/simulate.hpp"

namespace tessera {
namespace {

TEST(Agree, AcceptedPlansFinishInTheSimulator) {
  int accepted = 0;
  support::check_property("accepted plans finish in the simulator", 2000, [&] {
    auto const [plan, machine] = *random::plans({24, 120, {}});
    auto const proof = prove_progress(plan, machine);
    if (!proof) return;
    ++accepted;
    RC_LOG() << "proof: " << *proof << '\n';
    auto const timeline = simulate(plan, machine);
    if (!timeline) RC_LOG() << to_text(timeline.error()) << '\n';
    RC_ASSERT(timeline.has_value());
    std::int64_t blocks = 0;
    for (auto const& stage : plan.pipeline.stages) blocks += stage.blocks();
    RC_ASSERT(static_cast<std::int64_t>(timeline->tiles.size()) == blocks);
  });
  EXPECT_GT(accepted, 600);
}

TEST(Agree, AcceptedPlansFinishInTheInterpreter) {
  int accepted = 0;
  support::check_property("accepted plans finish in the interpreter", 400, [&] {
    auto const [plan, machine] = *random::plans();
    auto const proof = prove_progress(plan, machine);
    if (!proof) return;
    ++accepted;
    RC_LOG() << "proof: " << *proof << '\n';
    std::vector<std::unique_ptr<std::atomic<std::int64_t>>> runs;
    std::vector<TileFunction> functions;
    for (std::size_t s = 0; s < plan.pipeline.stages.size(); ++s) {
      runs.push_back(std::make_unique<std::atomic<std::int64_t>>(0));
      functions.push_back([count = runs.back().get()](std::int64_t, int) { ++*count; });
    }
    InterpretOptions options;
    options.workers = std::max(support::most_workers(plan), 8);
    options.launches = 2;
    auto const done = interpret(plan, functions, options);
    if (!done) RC_LOG() << to_text(done.error()) << '\n';
    RC_ASSERT(done.has_value());
    for (std::size_t s = 0; s < runs.size(); ++s) RC_ASSERT(*runs[s] == 2 * plan.pipeline.stages[s].blocks());
  });
  EXPECT_GT(accepted, 100);
}

}  // namespace
}  // namespace tessera
