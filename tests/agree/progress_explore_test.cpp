// SPDX-License-Identifier: Apache-2.0
// The proof of progress against every schedule of small random plans, in both directions.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <sstream>

#include "support/property.hpp"
#include "support/random_plan.hpp"
#include "tessera/plan/progress.hpp"
#include "tessera/simulate/explore.hpp"

namespace tessera {
namespace {

constexpr std::int64_t k_max_states = 20'000;

TEST(Agree, ProofAcceptsExactlyThePlansWithoutADeadlockingSchedule) {
  int accepted = 0, refused = 0, incomplete = 0;
  support::check_property("proof and explorer agree", 4000, [&] {
    auto const [plan, machine] = *random::plans();
    auto const proof = prove_progress(plan, machine);
    auto const explored = explore(plan, machine, k_max_states);
    if (!explored.complete) {
      ++incomplete;
      return;
    }
    (proof ? accepted : refused) += 1;
    if (proof) {
      RC_LOG() << "proof: " << *proof << '\n';
      for (auto const& line : explored.deadlock) RC_LOG() << line << '\n';
      RC_ASSERT(explored.deadlock.empty());
    } else {
      RC_LOG() << to_text(proof.error()) << '\n';
      RC_ASSERT(!explored.deadlock.empty());
    }
  });
  RecordProperty("accepted", accepted);
  RecordProperty("refused", refused);
  // The property says little if one side is rare.
  EXPECT_GT(accepted, 1000);
  EXPECT_GT(refused, 1000);
  EXPECT_LT(incomplete, 200);
}

}  // namespace
}  // namespace tessera
