// SPDX-License-Identifier: Apache-2.0
// The choice among measured candidates: what it is in plain cases, and what it never is in any.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>

#include "tessera/tune/choose.hpp"

namespace tessera {
namespace {

constexpr double least_gain = 0.003;

Measurement baseline(double hot, double cool, double noise = 0) {
  return {"base", true, true, hot, cool, noise};
}
Measurement other(double hot, double cool, double noise = 0) {
  return {"other", false, true, hot, cool, noise};
}

TEST(Choice, TakesTheFasterOne) {
  auto const decision = decide({baseline(100, 100), other(90, 95), other(80, 99)}, least_gain);
  EXPECT_EQ(decision.chosen, 2u);
  EXPECT_EQ(decision.baseline, 0u);
  EXPECT_EQ(decision.reason, "12.4 % faster than the best baseline");
}

TEST(Choice, StaysWithTheBaselineWithinTheNoise) {
  EXPECT_EQ(decide({baseline(100, 100), other(99.8, 99.8)}, least_gain).chosen, 0u);
  EXPECT_EQ(decide({baseline(100, 100, 0.05), other(97, 97)}, least_gain).chosen, 0u);
  EXPECT_EQ(decide({baseline(100, 100), other(97, 97, 0.05)}, least_gain).chosen, 0u);
  EXPECT_EQ(decide({baseline(100, 100, 0.01), other(97, 97, 0.01)}, least_gain).chosen, 1u);
}

TEST(Choice, NeverTakesWhatLosesHotOrCool) {
  EXPECT_EQ(decide({baseline(100, 100), other(50, 101)}, least_gain).chosen, 0u);
  EXPECT_EQ(decide({baseline(100, 100), other(101, 50)}, least_gain).chosen, 0u);
}

TEST(Choice, CountsOnlyTheLoadThatItIsFor) {
  // The first baseline is better hot, the second cool, the third in both together.
  std::vector<Measurement> const measured = {baseline(96, 105), baseline(106, 95), baseline(99, 99),
                                             other(95, 200),    other(200, 94),    other(98.5, 98.5)};
  EXPECT_EQ(decide(measured, least_gain, Load::steady).chosen, 3u);
  EXPECT_EQ(decide(measured, least_gain, Load::steady).baseline, 0u);
  EXPECT_EQ(decide(measured, least_gain, Load::bursts).chosen, 4u);
  EXPECT_EQ(decide(measured, least_gain, Load::bursts).baseline, 1u);
  EXPECT_EQ(decide(measured, least_gain, Load::any).chosen, 5u);
  EXPECT_EQ(decide(measured, 0.02, Load::steady).chosen, 0u);
  EXPECT_EQ(decide(measured, 0.02, Load::steady).reason,
            "the best of the others is -1.0 % in time: not faster beyond doubt");
}

TEST(Choice, ComparesWithTheFastestBaseline) {
  EXPECT_EQ(decide({baseline(100, 100), other(95, 95), baseline(90, 90)}, least_gain).chosen, 2u);
}

TEST(Choice, PassesOverWhatIsWrong) {
  Measurement wrong = other(1, 1);
  wrong.right = false;
  auto const decision = decide({wrong, baseline(100, 100)}, least_gain);
  EXPECT_EQ(decision.chosen, 1u);
  EXPECT_EQ(decision.reason, "nothing else gave a right result");
  EXPECT_EQ(decide({wrong}, least_gain).chosen, Decision::none);
  EXPECT_EQ(decide({}, least_gain).chosen, Decision::none);
  EXPECT_EQ(decide({wrong, other(5, 5)}, least_gain).chosen, 1u);
}

rc::Gen<double> time() {
  return rc::gen::map(rc::gen::inRange(-2, 400), [](int n) {
    if (n == -2) return std::numeric_limits<double>::infinity();
    if (n == -1) return std::numeric_limits<double>::quiet_NaN();
    return n * 0.5;
  });
}

rc::Gen<Measurement> measurement() {
  return rc::gen::map(rc::gen::tuple(rc::gen::arbitrary<bool>(), rc::gen::arbitrary<bool>(), time(), time(),
                                     rc::gen::inRange(0, 50)),
                      [](std::tuple<bool, bool, double, double, int> const& t) {
                        return Measurement{"candidate",    std::get<0>(t), std::get<1>(t),
                                           std::get<2>(t), std::get<3>(t), std::get<4>(t) * 1e-3};
                      });
}

bool usable(Measurement const& one) {
  return one.right && std::isfinite(one.hot_us) && one.hot_us > 0 && std::isfinite(one.cool_us) &&
         one.cool_us > 0;
}

RC_GTEST_PROP(ChoiceOfAny, NeverPicksALoser, ()) {
  auto const measured = *rc::gen::container<std::vector<Measurement>>(measurement());
  auto const decision = decide(measured, least_gain);
  bool any = false;
  for (auto const& one : measured) any = any || usable(one);
  RC_ASSERT((decision.chosen != Decision::none) == any);
  if (!any) return;
  auto const& chosen = measured[decision.chosen];
  RC_ASSERT(usable(chosen));
  for (auto const& one : measured) {
    if (!usable(one) || !one.baseline) continue;
    RC_ASSERT(decision.baseline != Decision::none);
    // No baseline has a better score than the chosen one, and one that is not a baseline beats the fastest.
    RC_ASSERT(score(chosen) <= score(one));
  }
  if (decision.baseline != Decision::none && !chosen.baseline) {
    auto const& base = measured[decision.baseline];
    RC_ASSERT(chosen.hot_us <= base.hot_us);
    RC_ASSERT(chosen.cool_us <= base.cool_us);
    RC_ASSERT(score(chosen) * (1 + least_gain) < score(base));
  }
}

RC_GTEST_PROP(ChoiceOfAny, IsTheSameAgainAndDoesNotDependOnTheOrder, ()) {
  auto const measured = *rc::gen::container<std::vector<Measurement>>(measurement());
  auto const once = decide(measured, least_gain);
  auto const again = decide(measured, least_gain);
  RC_ASSERT(once.chosen == again.chosen);
  RC_ASSERT(once.reason == again.reason);
  auto const reversed = decide({measured.rbegin(), measured.rend()}, least_gain);
  RC_ASSERT((once.chosen == Decision::none) == (reversed.chosen == Decision::none));
  if (once.chosen == Decision::none) return;
  RC_ASSERT(score(measured[once.chosen]) == score(measured[measured.size() - 1 - reversed.chosen]));
}

TEST(Halving, KeepsTheFastestAndTheBaselines) {
  std::vector<double> const times{5, 1, 4, 9, 8, 2};
  std::vector<bool> const baselines{false, false, false, true, true, false};
  EXPECT_EQ(survivors(times, baselines, 2, 1), (std::vector<std::size_t>{1, 5, 4}));
  EXPECT_EQ(survivors(times, baselines, 9, 0), (std::vector<std::size_t>{1, 5, 2, 0, 4, 3}));
}

RC_GTEST_PROP(HalvingOfAny, LosesNoneThatIsFasterThanOneKeptForItsTime, ()) {
  auto const times = *rc::gen::container<std::vector<double>>(time());
  auto const baselines = *rc::gen::container<std::vector<bool>>(times.size(), rc::gen::arbitrary<bool>());
  std::size_t const keep = *rc::gen::inRange<std::size_t>(0, 8),
                    seeded = *rc::gen::inRange<std::size_t>(0, 3);
  auto const kept = survivors(times, baselines, keep, seeded);
  std::size_t usable_times = 0, usable_baselines = 0, kept_baselines = 0;
  for (std::size_t i = 0; i < times.size(); ++i) {
    bool const is = std::isfinite(times[i]) && times[i] > 0;
    usable_times += is ? 1 : 0;
    usable_baselines += is && baselines[i] ? 1 : 0;
  }
  for (std::size_t i = 0; i < kept.size(); ++i) {
    RC_ASSERT(std::isfinite(times[kept[i]]) && times[kept[i]] > 0);
    if (i > 0) RC_ASSERT(times[kept[i - 1]] <= times[kept[i]]);
    kept_baselines += baselines[kept[i]] ? 1 : 0;
  }
  RC_ASSERT(kept.size() >= std::min(keep, usable_times));
  RC_ASSERT(kept.size() <= keep + seeded);
  RC_ASSERT(kept_baselines >= std::min(seeded, usable_baselines));
}

}  // namespace
}  // namespace tessera
