// SPDX-License-Identifier: Apache-2.0
#include "run/stamps.hpp"
#include "support/plans.hpp"
#include "support/property.hpp"
#include "support/random_plan.hpp"

namespace tessera {
namespace {

TEST(InterpretProperty, EveryAcceptedPlanFinishesWithTheReferenceResult) {
  support::check_property("accepted plans finish", 200, [] {
    auto const [plan, machine] = *random::plans();
    if (!prove_progress(plan, machine)) return;
    Stamps stamps(plan.pipeline);
    InterpretOptions options;
    options.workers = std::max(support::most_workers(plan), *rc::gen::inRange(1, 9));
    options.launches = 2;
    options.seed = static_cast<unsigned>(*rc::gen::inRange(0, 1000));
    auto const result = interpret(plan, stamps.functions(), options);
    if (!result.has_value()) RC_FAIL(to_text(result.error()));
    RC_ASSERT(stamps.right(options.launches));
  });
}

}  // namespace
}  // namespace tessera
