// SPDX-License-Identifier: Apache-2.0
// The MLP of a tensor-parallel layer on several GPUs: right, in graphs, several in flight, and what is
// refused.
#include "kernels/gemm_collectives/parallel_mlp.hpp"

#include <gmock/gmock.h>

#include <chrono>
#include <thread>

#include "kernels/gemm_collectives/one_call.hpp"
#include "mlp_case.hpp"

namespace tessera::gemm_collectives {
namespace {

using gpu::ok;
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
    MlpCase const one(gpus, problem, 1), other(gpus, problem, 2);
    auto mlp = TensorParallelMlp::make(gpus.group, problem, options);
    ASSERT_TRUE(mlp) << to_text(mlp.error());
    // What one call leaves behind is wrong for the next.
    for (int call = 0; call < 4; ++call) {
      auto const& some = call % 2 == 0 ? one : other;
      some.poison();
      auto const done = mlp->run(some.operands(), gpus.all());
      ASSERT_TRUE(done) << to_text(done.error());
      auto const ended = mlp->finish();
      ASSERT_TRUE(ended) << to_text(ended.error());
      some.expect_right(to_string(problem) + ", " + mlp->name());
    }
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
    MlpCase const one(gpus, problem, 1), other(gpus, problem, 2);
    std::vector<std::unique_ptr<gpu::Stream>> more;
    for (int const rank : gpus.ranks()) {
      gpu::Select const current(rank);
      more.push_back(std::make_unique<gpu::Stream>());
    }
    std::vector<cudaStream_t> others;
    for (auto const& stream : more) others.push_back(stream->get());
    auto mlp = must(TensorParallelMlp::make(gpus.group, problem));
    for (int call = 0; call < 200; ++call) {
      ASSERT_TRUE(mlp.run(one.operands(), gpus.all()));
      ASSERT_TRUE(mlp.run(other.operands(), others));
    }
    ASSERT_TRUE(mlp.finish());
    one.expect_right("beside another stream");
    other.expect_right("in another stream");
  }
}

TEST_F(ParallelMlp, AStallIsSaidOnceByTheProductThatWaited) {
  for (auto const rows : {Tokens::whole, Tokens::spread}) {
    auto const problem = fit({16, 1024, 2752, Form::swiglu, rows});
    MlpCase const some(gpus, problem);
    MlpOptions options;
    options.first.way = Way::copy;
    options.second.way = rows == Tokens::whole ? Way::fused : Way::copy;
    options.first.deadline_seconds = options.second.deadline_seconds = 0.1;
    auto mlp = must(TensorParallelMlp::make(gpus.group, problem, options));
    auto const late = [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(400)); };
    ok(cudaLaunchHostFunc(gpus.stream(0), late, nullptr));
    ASSERT_TRUE(mlp.run(some.operands(), gpus.all()));
    auto const ended = mlp.finish();
    ASSERT_FALSE(ended) << mlp.name();
    for (auto const& error : ended.error()) EXPECT_EQ(error.code, "E0582") << to_text(ended.error());
    some.poison();
    ASSERT_TRUE(mlp.run(some.operands(), gpus.all()));
    ASSERT_TRUE(mlp.finish());
    some.expect_right("after a stall: " + mlp.name());
  }
}

TEST_F(ParallelMlp, AGraphHasTheSameBits) {
  for (auto const rows : {Tokens::whole, Tokens::spread}) {
    auto const problem = fit({48, 1024, 2752, Form::gelu, rows});
    MlpCase const some(gpus, problem), eager(gpus, problem, 2);
    ASSERT_TRUE(tensor_parallel_mlp(gpus.group, problem, some.operands(), gpus.all()));
    ASSERT_TRUE(finish_all(gpus.group));
    some.expect_right("one call");
    std::vector<std::vector<unsigned short>> bits;
    for (int const rank : gpus.ranks()) bits.push_back(some.result(rank));
    some.poison();
    for (auto* const stream : gpus.all())
      ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    auto const captured = tensor_parallel_mlp(gpus.group, problem, some.operands(), gpus.all());
    // Both end before anything else is done: what allocates is refused while a stream is captured.
    PerRank<cudaGraph_t> graphs(gpus.count());
    for (int const rank : gpus.ranks()) ok(cudaStreamEndCapture(gpus.stream(rank), &graphs[rank]));
    PerRank<cudaGraphExec_t> launched(gpus.count());
    for (int const rank : gpus.ranks()) {
      gpu::Select const current(rank);
      ok(cudaGraphInstantiate(&launched[rank], graphs[rank], 0));
      ok(cudaGraphUpload(launched[rank], gpus.stream(rank)));
      ok(cudaGraphDestroy(graphs[rank]));
    }
    ASSERT_TRUE(captured) << to_text(captured.error());
    for (int replay = 0; replay < 1000; ++replay)
      for (int const rank : gpus.ranks()) {
        gpu::Select const current(rank);
        ok(cudaGraphLaunch(launched[rank], gpus.stream(rank)));
      }
    ASSERT_TRUE(tensor_parallel_mlp(gpus.group, problem, eager.operands(), gpus.all()));
    ASSERT_TRUE(finish_all(gpus.group));
    for (int const rank : gpus.ranks())
      EXPECT_TRUE(bits[std::size_t(rank)] == some.result(rank)) << "rank " << rank;
    eager.expect_right("behind replays");
    for (auto* graph : launched) ok(cudaGraphExecDestroy(graph));
    ASSERT_TRUE(finish_all(gpus.group, true));
  }
}

TEST_F(ParallelMlp, TakesWhatIsRememberedForItsProducts) {
  auto const problem = fit({1000, 1024, 2752, Form::swiglu, Tokens::spread});
  Options copies;
  copies.way = Way::copy;
  ASSERT_TRUE(remember(gpus.group, second_product(problem), copies));
  auto const mlp = TensorParallelMlp::make(gpus.group, problem);
  ASSERT_TRUE(mlp) << to_text(mlp.error());
  EXPECT_THAT(mlp->name(), HasSubstr("; copy, "));
  ASSERT_TRUE(finish_all(gpus.group, true));
  auto const untuned = TensorParallelMlp::make(gpus.group, problem);
  ASSERT_TRUE(untuned) << to_text(untuned.error());
  EXPECT_THAT(untuned->name(), HasSubstr("; store, "));
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
