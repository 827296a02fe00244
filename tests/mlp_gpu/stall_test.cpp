// SPDX-License-Identifier: Apache-2.0
// mlp() beside a kernel that holds an SM: right, or an error, and right afterwards.
#include <gmock/gmock.h>

#include <optional>

#include "kernels/mlp/mlp.hpp"
#include "kernels/mlp/one_call.hpp"
#include "mlp_gpu/operands.hpp"
#include "mlp_gpu/plans.hpp"
#include "run_gpu/held_sms.hpp"
#include "run_gpu/told_stall.hpp"

namespace tessera::mlp {
namespace {

using testing::HasSubstr;

constexpr double allowed = 2e-3;
constexpr Shape shape{16, 4096, 3072, Form::gelu, ElementType::bf16};  // work for a block on every SM

template <class T>
std::string said(Expected<T> const& result) {
  return result ? "accepted" : to_text(result.error());
}

/// One launch that needs a block on every SM. One that does not start early is launched cooperatively: where
/// the GPU then keeps all of its blocks back until there is room for them, none waits for another.
Plan in_one_launch(bool early) {
  auto const machine = with_device().value();
  auto const few = by("few_tokens_16");
  return plan_of(graph_of(shape), {{few, few}, Mechanism::fused, 1, true, early}, machine).value();
}

/// Half of the SMs are held, since a launch may have fewer blocks than there are.
constexpr int k_half = 66;

/// Runs `launch` beside held SMs, which are free again when a wait has given up.
template <class Launch>
void stalls(Launch const& launch) {
  gpu::HeldSms held(k_half);
  launch();
  EXPECT_TRUE(gpu::a_stall_comes());
}

/// How many plans are kept; with one, each other size takes the place of the one that has stalled.
class MlpPlansStall : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Kept, MlpPlansStall, testing::Values(0, 1));

TEST_P(MlpPlansStall, IsSaidByTheNextLaunchOfAnySizeAndThenAllAreRight) {
  Stream const stream;
  Operands const operands(shape, 3, stream);
  MlpOptions options;
  options.only = in_one_launch(true);
  options.deadline_seconds = 0.05;
  options.most_plans = GetParam();
  auto block = Mlp::make(shape, options);
  ASSERT_TRUE(block) << said(block);
  auto const launch = [&](int tokens) {
    return said(block->launch(operands.x, operands.w1, operands.w2, operands.y, tokens, stream));
  };
  // 9 and 16 tokens are two executables, which share the words that their blocks count in.
  for (int const tokens : {16, 9}) ASSERT_EQ(launch(tokens), "accepted");
  ASSERT_EQ(said(block->finish(stream)), "accepted");
  for (bool const same : {false, true}) {
    // Its plan is made before SMs are held: to give up another one's memory is to wait for all kernels.
    ASSERT_EQ(launch(16), "accepted");
    ASSERT_EQ(said(block->finish(stream)), "accepted");
    stalls([&] { ASSERT_EQ(launch(16), "accepted"); });
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_TRUE(block->stalled());
    EXPECT_THAT(launch(same ? 16 : 9), HasSubstr("E0520"));
    EXPECT_FALSE(block->stalled());
    for (int const tokens : {9, 16, 9}) {
      operands.poison_result();
      ASSERT_EQ(launch(tokens), "accepted");
      EXPECT_LE(operands.error(tokens), allowed) << tokens;
    }
    EXPECT_EQ(said(block->finish(stream)), "accepted");
  }
}

TEST(MlpStall, InOneCallBesideASpinnerIsRightOrAnErrorAndTheNextIsRight) {
  Stream const stream;
  Operands const operands(shape, 4, stream);
  auto const call = [&] { return mlp(operands.x, operands.w1, operands.w2, operands.y, shape, stream); };
  ASSERT_EQ(said(call()), "accepted");
  ASSERT_EQ(said(finish(stream)), "accepted");
  {
    gpu::HeldSms const held(k_half, 1.5);
    operands.poison_result();
    bool const right = call().has_value() && finish(stream).has_value();
    if (right) {
      EXPECT_LE(operands.error(shape.tokens), allowed);
    }
  }
  operands.poison_result();
  ASSERT_EQ(said(call()), "accepted");
  ASSERT_EQ(said(finish(stream)), "accepted");
  EXPECT_LE(operands.error(shape.tokens), allowed);
}

/// mlp() by one launch that needs every SM, with a deadline that the held SM outlasts.
class MlpOneCallStall : public testing::Test {
 protected:
  MlpOneCallStall() {
    MlpOptions options;
    options.only = in_one_launch(true);
    options.deadline_seconds = 0.05;
    options_of_new_mlps(options);
  }
  ~MlpOneCallStall() override { options_of_new_mlps({}); }

  std::string call() { return said(mlp(operands.x, operands.w1, operands.w2, operands.y, shape, stream)); }
  void expect_right() {
    operands.poison_result();
    ASSERT_EQ(call(), "accepted");
    ASSERT_EQ(said(finish(stream)), "accepted");
    EXPECT_LE(operands.error(shape.tokens), allowed);
  }
  struct Graph {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    std::string called;
    ~Graph() {
      if (executable != nullptr) cudaGraphExecDestroy(executable);
      if (graph != nullptr) cudaGraphDestroy(graph);
    }
  };
  void capture(Graph& made) {
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    made.called = call();
    ASSERT_EQ(cudaStreamEndCapture(stream, &made.graph), cudaSuccess) << made.called;
    ASSERT_EQ(cudaGraphInstantiate(&made.executable, made.graph, 0), cudaSuccess);
  }

  Stream stream;
  Operands const operands{shape, 6, stream};
};

TEST_F(MlpOneCallStall, IsSaidByTheNextCallOrByFinishAndThenItIsRight) {
  expect_right();
  for (bool const by_finish : {false, true}) {
    SCOPED_TRACE(by_finish ? "finish()" : "mlp()");
    stalls([&] { ASSERT_EQ(call(), "accepted"); });
    if (by_finish) {
      EXPECT_THAT(said(finish(stream)), HasSubstr("E0520"));
    } else {
      ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
      EXPECT_THAT(call(), HasSubstr("E0520"));
    }
    expect_right();
  }
}

TEST_F(MlpOneCallStall, InTheDefaultStreamIsSaidByEitherOfItsNames) {
  auto const in = [&](cudaStream_t named) {
    return said(mlp(operands.x, operands.w1, operands.w2, operands.y, shape, named));
  };
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  for (cudaStream_t const called : {cudaStream_t{}, cudaStreamLegacy})
    for (cudaStream_t const finished : {cudaStream_t{}, cudaStreamLegacy}) {
      SCOPED_TRACE(testing::Message() << "mlp() in " << called << ", finish() of " << finished);
      ASSERT_EQ(in(called), "accepted");
      ASSERT_EQ(said(finish(finished)), "accepted");
      stalls([&] { ASSERT_EQ(in(called), "accepted"); });
      EXPECT_THAT(said(finish(finished)), HasSubstr("E0520"));
      operands.poison_result();
      ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
      ASSERT_EQ(in(called), "accepted");
      ASSERT_EQ(said(finish(finished)), "accepted");
      EXPECT_LE(operands.error(shape.tokens), allowed);
    }
}

TEST_F(MlpOneCallStall, OfAReplayIsSaidByFinishAndTheReplayAfterIsRight) {
  expect_right();
  Graph graph;
  capture(graph);
  ASSERT_EQ(graph.called, "accepted");
  for (int round = 0; round < 2; ++round) {
    stalls([&] { ASSERT_EQ(cudaGraphLaunch(graph.executable, stream), cudaSuccess); });
    EXPECT_THAT(said(finish(stream)), HasSubstr("E0520"));
    EXPECT_EQ(said(finish(stream)), "accepted");
    operands.poison_result();
    ASSERT_EQ(cudaGraphLaunch(graph.executable, stream), cudaSuccess);
    ASSERT_EQ(said(finish(stream)), "accepted");
    EXPECT_LE(operands.error(shape.tokens), allowed);
  }
  expect_right();
}

/// A later capture gets the memory of one whose graphs are gone, with the stall that is in it.
TEST_F(MlpOneCallStall, OfAGraphThatIsGoneIsSaidInTheNextCaptureAndThenByFinish) {
  expect_right();
  {
    Graph graph;
    capture(graph);
    ASSERT_EQ(graph.called, "accepted");
    stalls([&] { ASSERT_EQ(cudaGraphLaunch(graph.executable, stream), cudaSuccess); });
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  }
  // CUDA may tell of a graph's end a little later.
  std::string called;
  EXPECT_TRUE(support::comes_true([&] {
    Graph next;
    capture(next);
    called = next.called;
    return called != "accepted";
  }));
  EXPECT_THAT(called, HasSubstr("call finish() when the capture has ended"));
  EXPECT_THAT(said(finish(stream)), HasSubstr("E0520"));
  Graph graph;
  capture(graph);
  ASSERT_EQ(graph.called, "accepted");
  operands.poison_result();
  ASSERT_EQ(cudaGraphLaunch(graph.executable, stream), cudaSuccess);
  ASSERT_EQ(said(finish(stream)), "accepted");
  EXPECT_LE(operands.error(shape.tokens), allowed);
}

/// The same with a plan whose launch needs every SM, by the deadline that mlp() has.
TEST(MlpStall, TheDefaultDeadlineOutlastsASpinner) {
  Stream const stream;
  Operands const operands(shape, 5, stream);
  MlpOptions options;
  options.only = in_one_launch(false);
  auto block = Mlp::make(shape, options);
  ASSERT_TRUE(block) << said(block);
  gpu::HeldSms const held(k_half, 1.5);
  operands.poison_result();
  ASSERT_EQ(said(block->launch(operands.x, operands.w1, operands.w2, operands.y, 16, stream)), "accepted");
  ASSERT_EQ(said(block->finish(stream)), "accepted");
  EXPECT_LE(operands.error(16), allowed);
}

TEST(MlpStall, OfACooperativeLaunchIsSaidOrTheResultIsRight) {
  Stream const stream;
  Operands const operands(shape, 7, stream);
  MlpOptions options;
  options.only = in_one_launch(false);
  options.deadline_seconds = 0.05;
  auto block = Mlp::make(shape, options);
  ASSERT_TRUE(block) << said(block);
  auto const launch = [&] {
    operands.poison_result();
    return said(block->launch(operands.x, operands.w1, operands.w2, operands.y, 16, stream));
  };
  ASSERT_EQ(launch(), "accepted");
  ASSERT_EQ(said(block->finish(stream)), "accepted");
  std::optional<gpu::HeldSms> held(std::in_place, k_half, 0.4);  // for eight deadlines: perhaps nobody waits
  ASSERT_EQ(launch(), "accepted");
  auto const outcome = said(block->finish(stream));
  RecordProperty("outcome", outcome == "accepted" ? "its blocks came together" : "it stalled");
  if (outcome == "accepted") {
    EXPECT_LE(operands.error(16), allowed);
  } else {
    EXPECT_THAT(outcome, HasSubstr("E0520"));
  }
  held.reset();
  ASSERT_EQ(launch(), "accepted");
  ASSERT_EQ(said(block->finish(stream)), "accepted");
  EXPECT_LE(operands.error(16), allowed);
}

}  // namespace
}  // namespace tessera::mlp
