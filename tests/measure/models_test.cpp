// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <cmath>

#include "tessera/measure/statistics.hpp"
#include "tessera/measure/switch_point.hpp"
#include "tessera/measure/tau.hpp"

namespace tessera {
namespace {

using testing::DoubleNear;

TEST(Statistics, QuantilesAndDeviationOfKnownSamples) {
  auto const s = summarize({4, 1, 3, 2, 5});
  EXPECT_DOUBLE_EQ(s.median, 3);
  EXPECT_DOUBLE_EQ(s.mean, 3);
  EXPECT_THAT(s.deviation, DoubleNear(std::sqrt(2.5), 1e-12));
  EXPECT_DOUBLE_EQ(s.p05, 1.2);
  EXPECT_DOUBLE_EQ(s.p95, 4.8);
  EXPECT_EQ(summarize({}).samples, 0);
  EXPECT_DOUBLE_EQ(summarize({7}).deviation, 0);
}

TEST(Statistics, AQuantileLiesBetweenTheNearestRanksInAnyOrder) {
  EXPECT_DOUBLE_EQ(quantile({3, 1, 2}, 1), 3);
  EXPECT_DOUBLE_EQ(quantile({4, 1, 3, 2}, 0.25), 1.75);
  EXPECT_DOUBLE_EQ(median({4, 1, 3, 2}), 2.5);
  EXPECT_DOUBLE_EQ(median({9}), 9);
  EXPECT_TRUE(std::isnan(quantile({}, 0.5)));
}

TEST(Statistics, RepeatDifferenceTakesTheFixedPartAway) {
  // 1000 of fixed cost, 2.5 a repetition, and noise of a known spread in both.
  auto const cost = repeat_difference({1000 + 2816 * 2.5, 1004 + 2816 * 2.5}, 2816,
                                      {1000 + 256 * 2.5, 1004 + 256 * 2.5}, 256);
  EXPECT_DOUBLE_EQ(cost.median, 2.5);
  double const sigma = std::sqrt(8.0);  // of {1000, 1004}
  EXPECT_THAT(cost.deviation, DoubleNear(std::sqrt(2 * sigma * sigma) / 2560, 1e-12));
  EXPECT_EQ(repeat_difference({1}, 5, {1}, 5).samples, 0);
}

TEST(Statistics, KernelFusionGivesTheLaunchOverhead) {
  // Eq. 6: 16 launches of 1 unit against 1 launch of 16, a unit 5000 ns, a launch 1081 ns.
  auto const cost = kernel_fusion({16 * 5000 + 16 * 1081.0}, {16 * 5000 + 1081.0}, 16, 1);
  EXPECT_DOUBLE_EQ(cost.median, 1081);
}

TEST(Statistics, ALineIsFoundAgain) {
  auto const line = fit_line({1, 2, 4, 8}, {12, 14, 18, 26});
  EXPECT_DOUBLE_EQ(line.slope, 2);
  EXPECT_DOUBLE_EQ(line.intercept, 10);
  EXPECT_DOUBLE_EQ(line.r2, 1);
  EXPECT_LT(fit_line({1, 2, 3, 4}, {0, 5, 0, 5}).r2, 0.5);
}

TEST(SwitchPoint, ThePapersTablesThreeAndFour) {
  Level const thread{13.0, 0.62}, warp{13.0, 19.6}, many{13.0, 215};
  EXPECT_THAT(concurrency(thread), DoubleNear(8, 0.1));
  EXPECT_THAT(concurrency(many), DoubleNear(2796, 2));
  auto const first = switch_point(thread, warp, 110);
  EXPECT_EQ(first.regime, SwitchRegime::within_concurrency);
  EXPECT_THAT(first.bytes, DoubleNear(76, 1));
  // Table 4 gives N_l for it; from the same figures:
  EXPECT_THAT(110 * 19.6 * 0.62 / (19.6 - 0.62), DoubleNear(70, 1));
  auto const second = switch_point(warp, many, 420);
  EXPECT_EQ(second.regime, SwitchRegime::beyond_concurrency);
  EXPECT_THAT(second.bytes, DoubleNear(9076, 25));
  EXPECT_EQ(switch_point(many, warp, 1).regime, SwitchRegime::never);
}

TEST(SwitchPoint, IsWhereTheTimesAreEqual) {
  Level const few{20, 1}, many{20, 10};
  for (double const sync : {5.0, 100.0, 2000.0}) {
    auto const at = switch_point(few, many, sync);
    double const a = time_of(few, 0, at.bytes), b = time_of(many, sync, at.bytes);
    EXPECT_THAT(a, DoubleNear(b, 1e-6 * b)) << sync;
  }
}

TEST(SwitchPoint, LevelsAndCrossingsFromSweeps) {
  std::vector<double> bytes, few, many;
  for (double b = 64; b <= 65536; b *= 2) {
    bytes.push_back(b);
    few.push_back(time_of({20, 1}, 0, b));
    many.push_back(time_of({20, 10}, 300, b));
  }
  EXPECT_THAT(fit_level(bytes, few).throughput, DoubleNear(1, 1e-9));
  EXPECT_THAT(crossing(bytes, few, many), DoubleNear(switch_point({20, 1}, {20, 10}, 300).bytes, 1));
  EXPECT_TRUE(std::isinf(crossing(bytes, many, few)));
  EXPECT_EQ(fit_level({1}, {1}).throughput, 0);
}

std::vector<TauSample> samples_of(double start, double work, double sync, double overlap = 1) {
  std::vector<TauSample> samples;
  for (double n : {100.0, 1000.0})
    for (double m : {0.0, 1.0, 16.0, 256.0})
      for (double k : {0.0, 1.0, 4.0})
        if (m + k > 0)
          samples.push_back(
              {n, m, k,
               start + n * std::pow(std::pow(m * work, overlap) + std::pow(k * sync, overlap), 1 / overlap)});
  return samples;
}

TEST(Tau, FindsItsConstantsAgain) {
  auto const fit = fit_tau(samples_of(4000, 30, 800));
  EXPECT_THAT(fit.start_ns, DoubleNear(4000, 1));
  EXPECT_THAT(fit.work_ns, DoubleNear(30, 0.01));
  EXPECT_THAT(fit.sync_ns, DoubleNear(800, 0.1));
  EXPECT_LT(fit.worst_residual, 1e-6);
  EXPECT_DOUBLE_EQ(fit.overlap, 1);
  EXPECT_LT(hold_out_error(fit, {{500, 64, 2, 4000 + 500 * (64 * 30 + 2 * 800.0)}}), 1e-6);
  EXPECT_THAT(hold_out_error(fit, {{500, 64, 2, 2 * (4000 + 500 * (64 * 30 + 2 * 800.0))}}),
              DoubleNear(0.5, 1e-6));
}

TEST(Tau, OverlapShowsInTheExponentAndTheResiduals) {
  auto const fit = fit_tau(samples_of(1000, 30, 800, 4));
  EXPECT_GT(fit.overlap, 1.5);
  EXPECT_GT(fit.worst_residual, 0.01);
}

TEST(Tau, ErrorsGrowWithNoise) {
  auto noisy = samples_of(4000, 30, 800);
  for (std::size_t i = 0; i < noisy.size(); ++i) noisy[i].ns *= i % 2 == 0 ? 1.03 : 0.97;
  auto const fit = fit_tau(noisy);
  EXPECT_GT(fit.sync_error, 1);
  EXPECT_LT(std::abs(fit.sync_ns - 800), 4 * fit.sync_error);
}

TEST(Tau, SaysNothingWithoutEnoughSamples) {
  EXPECT_EQ(fit_tau({}).samples, 0);
  EXPECT_EQ(fit_tau({{1, 1, 1, 5}, {2, 1, 1, 9}, {3, 1, 1, 12}, {4, 1, 1, 16}}).samples, 0)
      << "M and K never vary";
  EXPECT_EQ(fit_tau({{1, 1, 0, 5}, {2, 1, 1, 0}, {3, 4, 1, 12}, {4, 1, 2, 16}}).samples, 0)
      << "a time of zero";
}

}  // namespace
}  // namespace tessera
