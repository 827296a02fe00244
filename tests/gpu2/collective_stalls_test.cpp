// SPDX-License-Identifier: Apache-2.0
// Products with their collective: what happens when a rank does not come, or its call fails.
#include "collective_fixture.hpp"

namespace tessera::gemm_collectives {
namespace {

using testing::HasSubstr;

TEST_F(GemmCollectives, ARankThatNeverComesIsNamedAndTheNextCallWorks) {
  for (auto const& kind : kinds()) {
    auto const problem = problem_of(kind, 1024, 512);
    CollectiveCase const some(gpus, problem);
    auto product = make(problem, {kind.way, kind.kernel, 0, 0.2});
    run(product, some);
    finish(product);
    auto const begin = std::chrono::steady_clock::now();
    for (int rank = 1; rank < gpus.count(); ++rank)
      ASSERT_TRUE(product.enqueue(rank, some.operands(), gpus.stream(rank)));
    auto const ended = product.finish();
    EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), 5);
    ASSERT_FALSE(ended) << product.name();
    // Every rank that came says who did not.
    EXPECT_EQ(ended.error().size(), gpus.streams.size() - 1) << to_text(ended.error());
    int waits = 1;
    for (auto const& error : ended.error()) {
      EXPECT_EQ(error.code, "E0582");
      EXPECT_THAT(error.message, HasSubstr("rank " + std::to_string(waits++) + " waits for rank 0"));
      EXPECT_THAT(error.notes.front(), HasSubstr("expected 2"));
    }
    some.poison();
    run(product, some);
    finish(product);
    some.expect_right("after a stall: " + product.name());
  }
}

TEST_F(GemmCollectives, ACallThatFailsOnARankLeavesNothingBehind) {
  for (auto const& kind : kinds()) {
    auto const problem = problem_of(kind, 1024, 512);
    CollectiveCase const some(gpus, problem);
    auto product = make(problem, {kind.way, kind.kernel, 0, 0.2});
    run(product, some);
    finish(product);
    {
      // In a capture that is broken nothing of rank 1 can be launched.
      Select const current(1);
      ok(cudaStreamBeginCapture(gpus.stream(1), cudaStreamCaptureModeThreadLocal));
      EXPECT_NE(cudaStreamSynchronize(gpus.stream(1)), cudaSuccess);
      (void)cudaGetLastError();
    }
    EXPECT_FALSE(product.run(some.operands(), gpus.all()));
    cudaGraph_t broken = nullptr;
    EXPECT_NE(cudaStreamEndCapture(gpus.stream(1), &broken), cudaSuccess);
    (void)cudaGetLastError();
    auto const alone = product.enqueue(0, some.operands(), gpus.stream(0));
    ASSERT_FALSE(alone) << product.name();
    EXPECT_EQ(alone.error().front().code, "E0582");
    // Rank 0 may have waited for rank 1.
    auto const ended = product.finish();
    EXPECT_TRUE(ended || ended.error().front().code == "E0582") << to_text(ended.error());
    for (int launch = 0; launch < 2; ++launch) {
      some.poison();
      run(product, some);
      finish(product);
      some.expect_right("after a failure: " + product.name());
    }
  }
}

TEST_F(GemmCollectives, TheCallAfterAStallSaysSoOnce) {
  auto const problem = fit(Problem{Collective::all_reduce, 4, 1024, 512});
  CollectiveCase const some(gpus, problem);
  auto product = make(problem, {Way::words, {}, 0, 0.1});
  ASSERT_TRUE(product.enqueue(0, some.operands(), gpus.stream(0)));
  ok(cudaStreamSynchronize(gpus.stream(0)));
  auto const next = product.run(some.operands(), gpus.all());
  ASSERT_FALSE(next);
  EXPECT_EQ(next.error().front().code, "E0582");
  run(product, some);
  finish(product);
  some.expect_right("after a refusal");
}

TEST_F(GemmCollectives, ARankAloneIsRefusedAfterAStallUntilSomebodyHasHeardOfIt) {
  auto const problem = fit(Problem{Collective::all_reduce, 4, 1024, 512});
  CollectiveCase const some(gpus, problem);
  auto product = make(problem, {Way::words, {}, 0, 0.1});
  ASSERT_TRUE(product.enqueue(0, some.operands(), gpus.stream(0)));
  ok(cudaStreamSynchronize(gpus.stream(0)));
  for (int const rank : gpus.ranks()) {
    auto const next = product.enqueue(rank, some.operands(), gpus.stream(rank));
    ASSERT_FALSE(next);
    EXPECT_THAT(next.error().front().message, HasSubstr("a launch before has stalled"));
  }
  EXPECT_FALSE(product.finish());
  for (int const rank : gpus.ranks()) ASSERT_TRUE(product.enqueue(rank, some.operands(), gpus.stream(rank)));
  finish(product);
  some.expect_right("after finish()");
}

}  // namespace
}  // namespace tessera::gemm_collectives
