// SPDX-License-Identifier: Apache-2.0
// What simulation alone would run, and what a pair is refused for.
#include <gmock/gmock.h>

#include <algorithm>

#include "bench/predict/candidates.hpp"
#include "tessera/measure/machine_json.hpp"
#include "tessera/simulate/simulate.hpp"

namespace tessera::bench {
namespace {

using testing::Each;
using testing::SizeIs;

class Ranked : public testing::Test {
 protected:
  MachineProfile machine = tessera::machine("h200").value();
  MlpShape gpt3{12288, 6144, 512, false};
};

TEST_F(Ranked, NamesOnlyKernelsThatRun) {
  auto const runs = [](std::string const& kernel, bool gated) {
    return kernel == "128x256x64_2x1" || (!gated && kernel == "128x192x64_2x1");
  };
  auto const all = ranked({8192, 2752, 512, true}, machine, runs);
  ASSERT_FALSE(all.empty());
  for (auto const& one : all) {
    EXPECT_EQ(one.choice.first.kernel, "128x256x64_2x1");
    EXPECT_TRUE(runs(one.choice.second.kernel, false)) << one.choice.second.kernel;
  }
  EXPECT_THAT(ranked(gpt3, machine, [](std::string const&, bool) { return false; }), SizeIs(0));
}

TEST_F(Ranked, TakesAnyNumberOfTokensAndSortsByTime) {
  for (std::int64_t const tokens : {129, 300, 1000}) {
    auto const all = ranked({4096, 2048, tokens, false}, machine);
    ASSERT_GT(all.size(), 1U) << tokens;
    EXPECT_TRUE(
        std::is_sorted(all.begin(), all.end(), [](Priced const& a, Priced const& b) { return a.us < b.us; }));
  }
}

// One clock for all: 256 x 192 tiles draw less than 128 x 192, which at a clock of their own they make the
// most of.
TEST_F(Ranked, PricesAllAtOneClock) {
  MlpShape const large{12288, 6144, 4096, false};
  auto const only = [](std::string const& kernel, bool) {
    return kernel == "128x192x64_2x1" || kernel == "256x192x64_2x1";
  };
  auto const price = [&](std::vector<Priced> const& all, char const* kernel) {
    for (auto const& one : all)
      if (one.choice.first.kernel == kernel && one.choice.second.kernel == kernel &&
          one.choice.mechanism == Mechanism::stream_order)
        return one.us;
    return 0.0;
  };
  auto const shared = ranked(large, machine, only);
  auto const own = [&](char const* kernel) {
    PairChoice const choice{Mechanism::stream_order, {kernel, 0, true}, {kernel, 0, true}};
    auto const plan = plan_of(large, choice, machine);
    return static_cast<double>(simulate(plan.value(), machine, {false}).value().end) / 1e6;
  };
  EXPECT_GT(price(shared, "256x192x64_2x1") / price(shared, "128x192x64_2x1"),
            1.01 * own("256x192x64_2x1") / own("128x192x64_2x1"));
}

TEST_F(Ranked, ChainsWhatLoadsEarlyAndGainsByIt) {
  auto const best = ranked(gpt3, machine).front().choice;
  EXPECT_TRUE(best.chained);
  EXPECT_TRUE(best.early_weights);
  auto alone = best;
  alone.chained = false;
  EXPECT_LT(machine_for(best, machine).launch_ns, machine.launch_ns);
  EXPECT_EQ(machine_for(alone, machine).launch_ns, machine.launch_ns);
  EXPECT_THAT(text(best), testing::HasSubstr(", early weights, chained"));
}

TEST_F(Ranked, RefusesAKernelThatTheCatalogueLacks) {
  PairChoice const choice{Mechanism::pdl, {"72x192x64_2x1_swapped", 0, true}, {"128x192x64_2x1", 0, true}};
  auto const plan = plan_of(gpt3, choice, machine);
  ASSERT_FALSE(plan.has_value());
  EXPECT_EQ(plan.error().front().code, "E0305");
  EXPECT_EQ(plan.error().front().message, "the catalogue has no GEMM of shape 72x192x64_2x1_swapped");
}

}  // namespace
}  // namespace tessera::bench
