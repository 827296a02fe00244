// SPDX-License-Identifier: Apache-2.0
// The MLP of a tensor-parallel layer on several GPUs: right, in graphs, several in flight, and what is
// refused.
#include "kernels/gemm_collectives/parallel_mlp.hpp"

#include <gmock/gmock.h>

#include "mlp_case.hpp"

namespace tessera::gemm_collectives {
namespace {

using mlp::Form;
using testing::HasSubstr;

struct ParallelMlp : testing::Test {
  void SetUp() override {
    if (!gpus.group) GTEST_SKIP() << "needs GPUs that reach each other's memory";
  }
  /// Of these GPUs; features that they share are made a few more where they do not divide.
  MlpProblem fit(MlpProblem problem) const {
    problem.hidden = gpus.spread(problem.hidden);
    problem.ranks = gpus.count();
    return problem;
  }
  void expect_right(MlpProblem const& asked, MlpOptions const& options = {}) const {
    auto const problem = fit(asked);
    expect_calls_right<TensorParallelMlp>(gpus, problem, options, MlpCase(gpus, problem, 1),
                                          MlpCase(gpus, problem, 2));
  }

  SomeGpus const& gpus = *SomeGpus::get();
};

Form const forms[] = {Form::swiglu, Form::gelu};

TEST_F(ParallelMlp, OfWholeTokensIsRight) {
  for (auto const form : forms) {
    for (int const tokens : {1, 2, 7, 16, 33, 64, 200, 300})
      expect_right({tokens, 1024, 2752, form, Tokens::whole});
    expect_right({9, 1024, 2752, form, Tokens::whole, ElementType::fp16});
  }
}

TEST_F(ParallelMlp, OfSpreadTokensIsRight) {
  for (auto const form : forms) {
    for (int const tokens : {1, 2, 3, 129, 1000, 3001}) expect_right({tokens, 1024, 2752, form});
    expect_right({777, 1024, 2752, form, Tokens::spread, ElementType::fp16});
  }
}

TEST_F(ParallelMlp, ByEveryWayOfItsSecondProduct) {
  for (auto const way : {Way::store, Way::add, Way::copy}) {
    if (way == Way::add && gpus.count() > 2) continue;
    MlpOptions options;
    options.second.way = way;
    expect_right({1000, 1024, 2752, Form::swiglu, Tokens::spread}, options);
    expect_right({1000, 1024, 2752, Form::gelu, Tokens::whole}, options);
  }
  std::string why;
  if (gpus.group->nccl(why) == nullptr) GTEST_SKIP() << why;
  MlpOptions in_sequence;
  in_sequence.first.way = in_sequence.second.way = Way::sequential;
  for (auto const form : forms)
    for (auto const rows : {Tokens::spread, Tokens::whole})
      expect_right({333, 1024, 2752, form, rows}, in_sequence);
}

TEST_F(ParallelMlp, TwoStreamsShareWhatIsBetweenTheProducts) {
  for (auto const rows : {Tokens::whole, Tokens::spread}) {
    auto const problem = fit({96, 1024, 2752, Form::swiglu, rows});
    expect_two_streams_share<TensorParallelMlp>(gpus, problem, MlpCase(gpus, problem, 1),
                                                MlpCase(gpus, problem, 2));
  }
}

TEST_F(ParallelMlp, AStallIsSaidOnceByTheProductThatWaited) {
  for (auto const rows : {Tokens::whole, Tokens::spread}) {
    auto const problem = fit({16, 1024, 2752, Form::swiglu, rows});
    expect_a_stall_is_said_once<TensorParallelMlp, MlpOptions>(gpus, problem, MlpCase(gpus, problem));
  }
}

TEST_F(ParallelMlp, AGraphHasTheSameBits) {
  for (auto const rows : {Tokens::whole, Tokens::spread}) {
    auto const problem = fit({48, 1024, 2752, Form::gelu, rows});
    auto const call = [&](std::vector<MlpOperands> const& operands) {
      return tensor_parallel_mlp(gpus.group, problem, operands, gpus.all());
    };
    expect_a_graph_has_the_same_bits(gpus, call, MlpCase(gpus, problem), MlpCase(gpus, problem, 2));
  }
}

TEST_F(ParallelMlp, TakesWhatIsRememberedForItsProducts) {
  auto const problem = fit({1000, 1024, 2752, Form::swiglu, Tokens::spread});
  // What no call of these sizes takes untuned, on any number of GPUs.
  Options stores;
  stores.way = Way::store;
  ASSERT_NE(choose_way(second_product(problem)), stores.way);
  ASSERT_TRUE(remember(gpus.group, second_product(problem), stores));
  auto const mlp = TensorParallelMlp::make(gpus.group, problem);
  ASSERT_TRUE(mlp) << to_text(mlp.error());
  EXPECT_THAT(mlp->name(), HasSubstr("; store, "));
  ASSERT_TRUE(finish_all(gpus.group, true));
  auto const untuned = TensorParallelMlp::make(gpus.group, problem);
  ASSERT_TRUE(untuned) << to_text(untuned.error());
  std::string why;
  auto const way = choose_way(second_product(problem), gpus.group->nccl(why) != nullptr);
  EXPECT_THAT(untuned->name(), HasSubstr(std::string("; ") + to_string(way) + ", "));
}

TEST_F(ParallelMlp, RefusalsNameWhatIsWrong) {
  auto const refusal_of = [&](MlpProblem const& problem) {
    auto const made = TensorParallelMlp::make(gpus.group, problem);
    return made ? std::string() : to_text(made.error());
  };
  EXPECT_THAT(
      refusal_of({8, 1024, 2744, Form::gelu}),
      testing::StartsWith("error E0581: hidden 2744 is no multiple of " + std::to_string(8 * gpus.count()) +
                          ": of 8 features for each of " + std::to_string(gpus.count()) + " GPUs\n"));
  EXPECT_THAT(refusal_of(fit({8, 1020, 2752, Form::gelu})), testing::StartsWith("error E0581: "));
  EXPECT_THAT(refusal_of(fit({0, 1024, 2752, Form::gelu})),
              testing::StartsWith("error E0581: a product of 0 rows\n"));
  for (auto const rows : {Tokens::whole, Tokens::spread}) {
    auto const problem = fit({64, 1024, 2752, Form::swiglu, rows});
    MlpCase const some(gpus, problem);
    auto mlp = must(TensorParallelMlp::make(gpus.group, problem));
    auto operands = some.operands();
    operands[1].w1 = nullptr;
    auto const missing = mlp.run(operands, gpus.all());
    ASSERT_FALSE(missing);
    EXPECT_THAT(missing.error().front().message, HasSubstr("of rank 1 is missing or not 16-byte aligned"));
    EXPECT_FALSE(mlp.run({some.operands()[0]}, gpus.all()));
    EXPECT_FALSE(mlp.run(some.operands(), {gpus.stream(0)}));
    ASSERT_TRUE(mlp.run(some.operands(), gpus.all()));
    ASSERT_TRUE(mlp.finish());
    some.expect_right("after refusals");
  }
}

}  // namespace
}  // namespace tessera::gemm_collectives
