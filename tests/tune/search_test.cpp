// SPDX-License-Identifier: Apache-2.0
// The tuner's search without a GPU: the stopwatch is a simulation of kernels that the tuner knows less of.
#include "tessera/tune/search.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <set>

#include "support/cases.hpp"
#include "support/plans.hpp"
#include "tessera/measure/machine_json.hpp"
#include "tessera/plan/build.hpp"
#include "tessera/plan/plan_json.hpp"
#include "tessera/shipped_kernels.hpp"
#include "tessera/simulate/simulate.hpp"
#include "tessera/tune/plans.hpp"

namespace tessera {
namespace {

using testing::SizeIs;

MachineProfile h200() {
  auto machine = tessera::machine("h200").value();
  machine.power_limit_w = 0;
  return machine;
}

/// Two GEMMs and a stage of rows, `rows` tiles of 64 rows high, of which nothing is said but their grids.
Pipeline chain(int rows) {
  Pipeline p;
  p.name = "users";
  p.stages = {support::make_stage("gemm1", 16, rows), support::make_stage("gemm2", 16, rows),
              support::make_stage("softmax", 1, 64 * rows)};
  p.stages[2].grid = {{"y", 64 * rows}};
  p.dependences = {support::row_dependence(p, 1, 0)};
  auto of_rows = support::row_dependence(p, 2, 1);
  of_rows.accesses[0].ranges[1] = support::just(floor_div(TileExpr::dimension(0), 64));
  p.dependences.push_back(of_rows);
  p.stages[0].operands = {{"a", "x", 0, 0}};
  p.stages[1].operands = {{"a", "gemm1", 0, 0}};
  p.stages[2].operands = {{"a", "gemm2", 0, 0}};
  for (auto& stage : p.stages) {
    stage.flops_per_block = 0;
    stage.resources = {128, 96, 9728};
    stage.k_steps = stage.name == "softmax" ? 1 : 16;
  }
  p.stages[2].resources = {128, 40, 64};
  return p;
}

/// Measures what simulation says of the same plan of other stages: those of `truth`, by name.
Stopwatch as_if(Pipeline truth, int* calls = nullptr) {
  return [truth = std::move(truth), calls](Plan const& plan) -> Expected<double> {
    if (calls != nullptr) ++*calls;
    auto real = plan;
    for (auto& stage : real.pipeline.stages) {
      auto const grid = stage.grid;
      stage = truth.stages[static_cast<std::size_t>(find_stage(truth, stage.name))];
      stage.grid = grid;
    }
    return simulate(real, h200(), {false}).map([](Timeline const& t) {
      return static_cast<double>(t.end) * 1e-6;
    });
  };
}

/// What blocks take, of kernels that are slower where several share an SM.
Pipeline with_times(Pipeline p) {
  p.stages[0].block_time = {20000, 7000};
  p.stages[1].block_time = {36000, 11000};
  p.stages[2].block_time = {2500, 300};
  return p;
}

/// The same, where calls of wait() cost much.
Pipeline with_slow_waits(Pipeline p) {
  p = with_times(std::move(p));
  p.stages[1].block_time.waits_ns = 25000;
  p.stages[2].block_time.waits_ns = 600;
  return p;
}

/// The same from bytes and operations.
Pipeline with_costs(Pipeline p) {
  for (auto& stage : p.stages) {
    bool const gemm = stage.name != "softmax";
    stage.flops_per_block = gemm ? 8e7 : 1e4;
    stage.operands[0].bytes_per_block = gemm ? 65536 : 2048;
    stage.operands[0].unique_bytes = 4e6;
    stage.store_bytes_per_block = gemm ? 8192 : 2048;
    stage.pipeline_stages = 1;
  }
  return p;
}

double predicted(Pipeline const& pipeline) {
  auto const plan = build_plan(check(pipeline).value(), h200(), {}).value();
  return static_cast<double>(simulate(plan, h200(), {false})->end) * 1e-6;
}

TEST(Prices, AreTheTimesOfBlocksThatWereMeasured) {
  auto const truth = with_times(chain(53));
  auto const prices = price_stages(check(chain(53)).value(), h200(), as_if(truth)).value();
  ASSERT_THAT(prices, SizeIs(3));
  for (std::size_t s = 0; s < 2; ++s) {
    EXPECT_EQ(prices[s].stage, truth.stages[s].name);
    EXPECT_NEAR(prices[s].block.alone_ns, truth.stages[s].block_time.alone_ns, 10);
    EXPECT_NEAR(prices[s].block.share_ns, truth.stages[s].block_time.share_ns, 10);
    EXPECT_GT(prices[s].us, prices[s].few_us);
  }
  EXPECT_NEAR(predicted(with_prices(chain(53), prices)), predicted(truth), 0.01);
}

TEST(Prices, KnowWhatWaitingCostsAKernel) {
  auto const truth = with_slow_waits(chain(53));
  auto const prices = price_stages(check(chain(53)).value(), h200(), as_if(truth)).value();
  ASSERT_THAT(prices, SizeIs(3));
  EXPECT_EQ(prices[0].block.waits_ns, 0);
  EXPECT_NEAR(prices[1].block.waits_ns, 25000, 500);
  EXPECT_NEAR(prices[1].block.alone_ns, 36000, 10);
}

TEST(Prices, OfWaitingCountWhereTilesAreAwaited) {
  auto const dear = with_slow_waits(chain(16)), cheap = with_times(chain(16));
  auto const us = [](Pipeline const& pipeline, Mechanism mechanism) {
    Recipe recipe;
    recipe.mechanism = mechanism;
    auto const plan = build_plan(check(pipeline).value(), h200(), recipe).value();
    return static_cast<double>(simulate(plan, h200(), {false})->end) * 1e-6;
  };
  for (auto const mechanism : {Mechanism::stream_order, Mechanism::pdl})
    EXPECT_EQ(us(dear, mechanism), us(cheap, mechanism));
  EXPECT_GT(us(dear, Mechanism::pdl_tiles), us(cheap, Mechanism::pdl_tiles) + 20);
}

TEST(Prices, AddUpToTheChainInStreamOrderWhateverItsKernelsAre) {
  for (int const rows : {1, 8, 16, 53})
    for (auto const& truth : {with_times(chain(rows)), with_costs(chain(rows))}) {
      int calls = 0;
      auto const prices = price_stages(check(chain(rows)).value(), h200(), as_if(truth, &calls)).value();
      auto const priced = predicted(with_prices(chain(rows), prices));
      EXPECT_NEAR(priced / predicted(truth), 1, 0.002) << rows;
      double sum = 0;
      for (auto const& price : prices) sum += price.us;
      EXPECT_NEAR(sum, predicted(truth), 1e-6) << rows;
      EXPECT_LE(calls, 8);
    }
}

// What is described and what is measured may be far apart: then the measurement counts.
TEST(Prices, ReplaceWhatIsDescribed) {
  auto described = with_costs(chain(16));
  for (auto& stage : described.stages) stage.flops_per_block *= 10;
  auto const truth = with_times(chain(16));
  auto const prices = price_stages(check(described).value(), h200(), as_if(truth)).value();
  EXPECT_GT(prices[0].guess_us, 3 * prices[0].us);
  EXPECT_NEAR(predicted(with_prices(described, prices)), predicted(truth), 0.01);
}

TEST(Prices, DoWithoutFewTilesWhereAKernelTakesItsOwnGridOnly) {
  auto const truth = with_times(chain(53));
  auto const watch = as_if(truth);
  auto const whole_grids = [&](Plan const& plan) -> Expected<double> {
    for (auto const& stage : plan.pipeline.stages)
      if (stage.blocks() != truth.stages[static_cast<std::size_t>(find_stage(truth, stage.name))].blocks())
        return refuse({"E0513", Severity::error, {}, "its own grid", {}, ""});
    return watch(plan);
  };
  auto const prices = price_stages(check(chain(53)).value(), h200(), whole_grids).value();
  ASSERT_THAT(prices, SizeIs(3));
  EXPECT_EQ(prices[0].few_us, prices[0].us);
  EXPECT_NEAR(predicted(with_prices(chain(53), prices)) / predicted(truth), 1, 0.002);
}

TEST(Prices, StopBeforeAStageThatCannotBeMeasured) {
  auto const truth = with_times(chain(16));
  auto const watch = as_if(truth);
  auto const two = [&](Plan const& plan) -> Expected<double> {
    if (plan.stages.size() > 2) return std::numeric_limits<double>::infinity();
    return watch(plan);
  };
  EXPECT_THAT(price_stages(check(chain(16)).value(), h200(), two).value(), SizeIs(2));
  auto const none = [](Plan const&) -> Expected<double> {
    return refuse({"E0512", Severity::error, {}, "too large", {}, ""});
  };
  auto const refused = price_stages(check(chain(16)).value(), h200(), none);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().front().code, "E0512");
}

TEST(Search, PredictsEveryMechanismOfAUsersChainWithinEightPercent) {
  for (int const rows : {16, 53}) {
    if (support::k_sanitized && rows != 16) continue;
    for (auto const& truth : {with_times(chain(rows)), with_slow_waits(chain(rows))}) {
      auto const found = search(check(chain(rows)).value(), h200(), as_if(truth)).value();
      ASSERT_EQ(found.candidates.size(), found.times.size());
      std::set<std::string> mechanisms;
      for (std::size_t i = 0; i < found.times.size(); ++i) {
        auto const& plan = found.candidates[i].plan;
        mechanisms.insert(mechanism_text(plan));
        // Workers of an SM that draw tickets together share it more than the blocks of a grid that does not
        // fill it: what that costs is not seen then.
        bool const unseen = rows == 16 && support::most_workers(plan) > 0;
        if (!unseen) {
          EXPECT_NEAR(plan.predicted_us / found.times[i], 1, 0.08) << rows << " " << found.candidates[i].name;
        }
        EXPECT_EQ(found.candidates[i].baseline, is_stream_order(plan));
      }
      EXPECT_TRUE(mechanisms.count("stream order") == 1 && mechanisms.count("PDL") == 1 &&
                  mechanisms.count("PDL + tiles") == 1);
      EXPECT_THAT(found.prices, SizeIs(3));
      EXPECT_GT(found.tried, static_cast<int>(found.candidates.size()));
    }
  }
}

// What blocks do before they wait is a part of their measured time, and early starts hide it: such plans are
// faster than is said, and stream order is not.
TEST(Search, IsNotTooHopefulOfKernelsThatItDoesNotKnow) {
  for (int const rows : {16, 53}) {
    if (support::k_sanitized && rows != 16) continue;
    auto const found = search(check(chain(rows)).value(), h200(), as_if(with_costs(chain(rows)))).value();
    for (std::size_t i = 0; i < found.times.size(); ++i) {
      auto const& one = found.candidates[i];
      EXPECT_GT(one.plan.predicted_us, 0.92 * found.times[i]) << rows << " " << one.name;
      if (one.baseline) {
        EXPECT_NEAR(one.plan.predicted_us / found.times[i], 1, 0.005) << rows;
      }
    }
  }
}

// Who has the file has the prediction.
TEST(Search, LeavesThePricesInThePlansFile) {
  auto const found = search(check(chain(53)).value(), h200(), as_if(with_times(chain(53)))).value();
  auto const& plan = found.candidates.front().plan;
  auto const text = print_plan(plan);
  EXPECT_THAT(text, testing::HasSubstr("\"block_time\""));
  auto const again = parse_plan(text, "plan.json").value();
  EXPECT_EQ(again.pipeline, plan.pipeline);
  EXPECT_NEAR(static_cast<double>(simulate(again, h200(), {false})->end) * 1e-6, plan.predicted_us, 1e-3);
}

TEST(Search, GoesByWhatIsDescribedWhereNothingCanBeMeasuredInOrder) {
  auto const watch = as_if(with_times(chain(16)));
  auto const not_in_order = [&](Plan const& plan) -> Expected<double> {
    if (is_stream_order(plan)) return std::numeric_limits<double>::infinity();
    return watch(plan);
  };
  auto const found = search(check(with_costs(chain(16))).value(), h200(), not_in_order).value();
  EXPECT_TRUE(found.prices.empty());
  EXPECT_FALSE(found.candidates.empty());
}

OperatorGraph pair() {
  OperatorGraph graph;
  graph.name = "pair";
  for (char const* const name : {"up", "down"}) {
    Operator op;
    op.name = name;
    op.m = 512;
    op.n = op.k = 2048;
    bool const first = graph.operators.empty();
    op.inputs = {{"a", first ? "x" : "up", first ? "" : "up", ReadPattern::rows},
                 {"b", std::string("w_") + name, "", ReadPattern::rows}};
    graph.operators.push_back(op);
  }
  return graph;
}

TEST(Search, OfOperatorsHasLibrariesForBaselinesAndWhatIsFasterAmongItsCandidates) {
  auto const machine = h200();
  int calls = 0;
  auto const watch = [&](Plan const& plan) -> Expected<double> {
    ++calls;
    return simulate(plan, machine, {false}).map([](Timeline const& t) {
      return static_cast<double>(t.end) * 1e-6;
    });
  };
  auto const found = search(pair(), shipped_kernels(), machine, {}, watch).value();
  EXPECT_EQ(found.tried, calls);
  std::set<std::string> names;
  for (auto const& one : found.candidates) EXPECT_TRUE(names.insert(one.name).second) << one.name;
  double baseline = std::numeric_limits<double>::infinity(), best = baseline;
  for (std::size_t i = 0; i < found.times.size(); ++i) {
    best = std::min(best, found.times[i]);
    if (found.candidates[i].baseline) baseline = std::min(baseline, found.times[i]);
  }
  EXPECT_TRUE(std::isfinite(baseline));
  EXPECT_LE(best, baseline);
}

TEST(Search, OfOperatorsSaysWhyNothingCanBeMeasured) {
  auto const none = [](Plan const&) -> Expected<double> {
    return refuse({"E0511", Severity::error, {}, "no device", {}, ""});
  };
  auto const refused = search(pair(), shipped_kernels(), h200(), {}, none);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().front().code, "E0511");
}

}  // namespace
}  // namespace tessera
