// SPDX-License-Identifier: Apache-2.0
#include "tessera/run/interpret.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "run/stamps.hpp"
#include "support/plans.hpp"

namespace tessera {
namespace {

using support::Policy;

constexpr Mechanism k_mechanisms[] = {Mechanism::stream_order, Mechanism::pdl, Mechanism::wait_kernel,
                                      Mechanism::pdl_tiles, Mechanism::fused};

/// Three stages: rows, rows again, and one that also reads the first. Splits on the first.
Pipeline chain() {
  Pipeline p;
  p.name = "chain";
  p.stages = {support::make_stage("first", 4, 3, 1, 2), support::make_stage("second", 3, 3),
              support::make_stage("third", 4, 3)};
  p.dependences = {support::row_dependence(p, 1, 0), support::row_dependence(p, 2, 1),
                   support::tile_dependence(2, 0, "b")};
  return p;
}

std::vector<std::int32_t> shuffled(std::int64_t size, unsigned seed) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  for (auto i = order.size(); i > 1; --i) {
    seed = seed * 1664525 + 1013904223;
    std::swap(order[i - 1], order[(seed >> 8) % i]);
  }
  return order;
}

TEST(Interpret, EveryMechanismPolicyOrderAndSwitchGivesTheReference) {
  for (auto const mechanism : k_mechanisms)
    for (auto const policy : {Policy::tile_sync, Policy::row_sync, Policy::whole_grid})
      for (bool const tickets : {false, true})
        for (bool const plain_store : {false, true})
          for (unsigned seed = 0; seed < 3; ++seed) {
            auto plan = support::make_plan(chain(), support::ideal_machine(2), mechanism, policy);
            for (std::size_t s = 0; s < plan.stages.size(); ++s) {
              plan.stages[s].custom_order = tickets;
              plan.stages[s].plain_store = plain_store;
              if (seed > 0) plan.stages[s].order.table = shuffled(plan.pipeline.stages[s].tiles(), seed);
            }
            Stamps stamps(plan.pipeline);
            InterpretOptions options;
            options.workers = 1 + static_cast<int>(seed) * 3;
            options.launches = 4;
            options.seed = seed;
            auto const result = interpret(plan, stamps.functions(), options);
            ASSERT_TRUE(result.has_value()) << to_text(result.error());
            EXPECT_TRUE(stamps.right(options.launches)) << to_text(mechanism) << " seed " << seed;
          }
}

/// D = (A * B) * C on 12 x 12 matrices in 3 x 3 tiles, and softmax over rows between two products.
struct Matrices {
  static constexpr int n = 12;
  static constexpr int tile = 3;
  using Matrix = std::vector<double>;
  Matrix a, b, c, ab, soft, d;

  explicit Matrices(unsigned seed) {
    for (auto* m : {&a, &b, &c}) {
      m->resize(n * n);
      for (auto& value : *m) {
        seed = seed * 1664525 + 1013904223;
        value = static_cast<double>(seed >> 24) / 256 - 0.5;
      }
    }
    poison();
  }
  void poison() {
    for (auto* m : {&ab, &soft, &d}) m->assign(n * n, std::numeric_limits<double>::quiet_NaN());
  }
  static void multiply(Matrix const& left, Matrix const& right, Matrix& out, int x, int y) {
    for (int i = y * tile; i < (y + 1) * tile; ++i)
      for (int j = x * tile; j < (x + 1) * tile; ++j) {
        double sum = 0;
        for (int k = 0; k < n; ++k)
          sum += left[static_cast<std::size_t>(i * n + k)] * right[static_cast<std::size_t>(k * n + j)];
        out[static_cast<std::size_t>(i * n + j)] = sum;
      }
  }
  static void softmax(Matrix const& in, Matrix& out, int y) {
    for (int i = y * tile; i < (y + 1) * tile; ++i) {
      auto const row = in.begin() + i * n;
      double const most = *std::max_element(row, row + n);
      double sum = 0;
      for (int j = 0; j < n; ++j) sum += std::exp(row[j] - most);
      for (int j = 0; j < n; ++j) out[static_cast<std::size_t>(i * n + j)] = std::exp(row[j] - most) / sum;
    }
  }
  std::vector<TileFunction> functions(bool with_softmax) {
    TileFunction const first = [this](std::int64_t t, int) {
      multiply(a, b, ab, static_cast<int>(t % 4), static_cast<int>(t / 4));
    };
    TileFunction const middle = [this](std::int64_t t, int) { softmax(ab, soft, static_cast<int>(t)); };
    TileFunction const last = [this, with_softmax](std::int64_t t, int) {
      multiply(with_softmax ? soft : ab, c, d, static_cast<int>(t % 4), static_cast<int>(t / 4));
    };
    if (with_softmax) return {first, middle, last};
    return {first, last};
  }
};

Pipeline matrix_pipeline(bool with_softmax) {
  Pipeline p;
  p.name = "matrices";
  p.stages = {support::make_stage("scores", 4, 4)};
  if (with_softmax) p.stages.push_back(support::make_stage("softmax", 1, 4));
  p.stages.push_back(support::make_stage("context", 4, 4));
  p.dependences = {support::row_dependence(p, 1, 0)};
  if (with_softmax) p.dependences.push_back(support::row_dependence(p, 2, 1));
  return p;
}

TEST(Interpret, MatrixChainsEqualTheirReference) {
  for (bool const with_softmax : {false, true})
    for (auto const mechanism : k_mechanisms)
      for (unsigned seed = 1; seed <= 3; ++seed) {
        Matrices reference(seed);
        auto const stages = reference.functions(with_softmax);
        auto const plan = support::make_plan(matrix_pipeline(with_softmax), support::ideal_machine(4),
                                             mechanism, seed == 1 ? Policy::tile_sync : Policy::row_sync);
        for (std::size_t s = 0; s < stages.size(); ++s)
          for (std::int64_t t = 0; t < plan.pipeline.stages[s].tiles(); ++t) stages[s](t, 0);

        Matrices run(seed);
        InterpretOptions options;
        options.launches = 2;
        options.seed = seed;
        auto const result = interpret(plan, run.functions(with_softmax), options);
        ASSERT_TRUE(result.has_value()) << to_text(result.error());
        EXPECT_EQ(run.d, reference.d) << to_text(mechanism);
      }
}

TEST(Interpret, ComparingCatchesADependenceWithoutItsWait) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a data race on purpose, which ThreadSanitizer reports";
#endif
  // The same chain with a dependence that waits for nothing; its consumer is faster.
  for (auto const mechanism : {Mechanism::wait_kernel, Mechanism::pdl_tiles, Mechanism::fused}) {
    auto plan =
        support::make_plan(support::figure_one(), support::ideal_machine(2), mechanism, Policy::row_sync);
    if (mechanism == Mechanism::fused) plan.launches.front().workers = 12;
    Stamps stamps(plan.pipeline);
    plan.pipeline.dependences[0].accesses.clear();
    InterpretOptions options;
    options.workers = 12;
    ASSERT_TRUE(interpret(plan, stamps.functions_in_wrong_order(0, 1), options).has_value());
    EXPECT_FALSE(stamps.right(1)) << to_text(mechanism);
  }
}

TEST(Interpret, AStallNamesTheWaitAndTheMissingTiles) {
  // Tickets in which a consumer comes before its producers: one worker can never go on.
  auto plan = support::make_plan(support::figure_one(), support::ideal_machine(1), Mechanism::fused,
                                 Policy::row_sync);
  plan.launches.front().workers = 1;
  plan.launches.front().tickets = {{0, 0}, {0, 1}, {1, 0}, {0, 2}, {0, 3}, {0, 4},
                                   {0, 5}, {1, 1}, {1, 2}, {1, 3}, {1, 4}, {1, 5}};
  plan.pipeline.stages[1].where = {"mlp.cpp", 23};
  Stamps stamps(plan.pipeline);
  InterpretOptions options;
  options.deadline_seconds = 0.2;
  auto const result = interpret(plan, stamps.functions(), options);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(to_text(result.error()),
            "mlp.cpp:23: error E0502: gemm2(0, 0) waits for semaphore 0 of gemm1 (RowSync): 2 of 3 posts\n"
            "   seen 2, expected 3, in launch 1 of 1; no progress for 0.2 s with 4 block slots\n"
            "   missing: gemm1(2, 0) not started\n"
            "   hint: order the tickets so that every block comes after the blocks that it waits for, or use "
            "more workers");

  // With a second worker the same tickets are fine.
  plan.launches.front().workers = 2;
  Stamps again(plan.pipeline);
  options.deadline_seconds = 60;
  ASSERT_TRUE(interpret(plan, again.functions(), options).has_value());
  EXPECT_TRUE(again.right(1));
  // And with two workers of which only one finds a slot, it stalls again.
  options.workers = 1;
  options.deadline_seconds = 0.2;
  EXPECT_FALSE(interpret(plan, again.functions(), options).has_value());
}

TEST(Interpret, SlowTilesAreNoStall) {
  // Tickets on one side, block indices on the other, several launches, and a tile function that lasts longer
  // than the deadline while others wait for it. A thread that the host does not run for so long is a stall to
  // the interpreter, so the test may repeat itself; what takes slow tiles for a stall fails every time.
  auto plan = support::make_plan(support::figure_one(), support::ideal_machine(1), Mechanism::pdl_tiles,
                                 Policy::row_sync);
  plan.stages[1].custom_order = false;
  InterpretOptions options;
  options.deadline_seconds = 0.2;
  options.launches = 3;
  std::string stall = "never run";
  for (int tries = 0; tries < 5 && !stall.empty(); ++tries) {
    Stamps stamps(plan.pipeline);
    auto functions = stamps.functions();
    functions[0] = [compute = functions[0]](std::int64_t tile, int split) {
      if (tile == 4) std::this_thread::sleep_for(std::chrono::milliseconds(300));
      compute(tile, split);
    };
    auto const result = interpret(plan, functions, options);
    stall = result ? "" : to_text(result.error());
    EXPECT_TRUE(!result || stamps.right(options.launches));
  }
  EXPECT_EQ(stall, "");
}

TEST(Interpret, ReusedBuffersWaitForTheirReaders) {
  // "third" writes where "first" wrote; without the edge a slow reader ("second") would see it.
  Pipeline p;
  p.name = "reuse";
  p.stages = {support::make_stage("first", 3, 1), support::make_stage("second", 3, 1),
              support::make_stage("third", 3, 1)};
  p.dependences = {support::tile_dependence(1, 0)};
  auto plan = support::make_plan(p, support::ideal_machine(4), Mechanism::wait_kernel, Policy::tile_sync);
  SemaphoreSet whole{1, support::map_of(Policy::whole_grid), "GridSync", 3, 1};
  plan.semaphores.push_back(whole);

  auto const run = [&](bool with_edge) {
    plan.reuse_edges.clear();
    if (with_edge) plan.reuse_edges.push_back({2, 1, "buffer", 1});
    std::atomic<bool> overwritten[3] = {};
    std::atomic<bool> early{false};
    std::vector<TileFunction> const functions = {
        [](std::int64_t, int) {},
        [&](std::int64_t tile, int) {
          // Without the edge until the writer has come, perhaps even before "first"; with it
          // the writer has time to come too early.
          if (with_edge)
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
          else
            support::comes_true([&] { return overwritten[tile].load(); });
          if (overwritten[tile]) early = true;
        },
        [&](std::int64_t tile, int) { overwritten[tile] = true; }};
    InterpretOptions options;
    options.workers = 9;
    EXPECT_TRUE(interpret(plan, functions, options).has_value());
    return !early;
  };
  EXPECT_TRUE(run(true));
  EXPECT_FALSE(run(false));
}

TEST(Interpret, AnExceptionOfATileFunctionComesThrough) {
  auto const plan = support::make_plan(support::figure_one(), support::ideal_machine(1), Mechanism::fused,
                                       Policy::row_sync);
  std::vector<TileFunction> const functions = {[](std::int64_t tile, int) {
                                                 if (tile == 4) throw std::runtime_error("out of paper");
                                               },
                                               [](std::int64_t, int) {}};
  EXPECT_THROW((void)interpret(plan, functions), std::runtime_error);
}

TEST(Interpret, RefusesWhatItCannotRun) {
  auto const plan = support::make_plan(support::figure_one(), support::ideal_machine(1), Mechanism::pdl);
  auto const nothing = [](std::int64_t, int) {};
  EXPECT_THAT(to_text(interpret(plan, {nothing}).error()),
              testing::HasSubstr("error E0503: the plan has 2 stages, but 1 functions were given"));
  EXPECT_THAT(to_text(interpret(plan, {nothing, nullptr}).error()),
              testing::HasSubstr("error E0503: the function of stage gemm2 is empty"));
  InterpretOptions options;
  options.workers = 0;
  EXPECT_THAT(to_text(interpret(plan, {nothing, nothing}, options).error()),
              testing::HasSubstr("error E0503: 0 workers can run nothing"));
  auto broken = plan;
  broken.dependences[0].semaphore_set = 7;
  EXPECT_THAT(to_text(interpret(broken, {nothing, nothing}).error()),
              testing::HasSubstr("error E0503: the plan's parts contradict each other"));
}

}  // namespace
}  // namespace tessera
