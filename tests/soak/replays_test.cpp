// SPDX-License-Identifier: Apache-2.0
// Graphs of every shipped workload, replayed without a reset: equal bits each time. TESSERA_REPLAYS says how
// often (default 20000).
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>

#include "few_tokens_gpu/chain_problem.hpp"
#include "gpu/device_buffer.hpp"
#include "kernels/mlp/mlp.hpp"
#include "kernels/reduction/sum.hpp"
#include "mlp_gpu/operands.hpp"
#include "mlp_gpu/plans.hpp"

namespace tessera {
namespace {

using gpu::DeviceBuffer;
using gpu::ok;

long long wanted() {
  char const* const said = std::getenv("TESSERA_REPLAYS");
  long long const replays = said != nullptr ? std::atoll(said) : 20000;
  return replays > 0 ? replays : 20000;
}

/// Launches of one graph. What comes between comparisons is free to run into its neighbours.
constexpr int k_of_graph = 10;
constexpr int k_between_comparisons = 50;

/// Captures `enqueue`, replays it, and compares `words` 16-bit words at `output` with those of the first
/// replay. The output is poisoned now and then: a replay that wrote nothing would be found.
void replay(std::function<void(cudaStream_t)> const& enqueue, void* output, std::size_t words,
            std::function<void()> const& finish) {
  mlp::Stream const stream;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < k_of_graph; ++i) enqueue(stream);
  ok(cudaStreamEndCapture(stream, &graph));
  ok(cudaGraphInstantiate(&executable, graph, 0));
  DeviceBuffer<unsigned short> first(words);
  bench::poison(output, words, stream);
  ok(cudaGraphLaunch(executable, stream));
  ok(cudaMemcpyAsync(first.get(), output, words * 2, cudaMemcpyDeviceToDevice, stream));
  ASSERT_EQ(bench::differing(first.get(), output, words, stream), 0u);
  ASSERT_GT(bench::not_poisoned(output, words, stream), words / 2);
  unsigned long long different = 0;
  long long const launches = wanted(), graphs = (launches + k_of_graph - 1) / k_of_graph;
  for (long long i = 1; i <= graphs && different == 0; ++i) {
    if (i % k_between_comparisons == 1) bench::poison(output, words, stream);
    ok(cudaGraphLaunch(executable, stream));
    if (i % k_between_comparisons == 0 || i == graphs)
      different = bench::differing(first.get(), output, words, stream);
  }
  EXPECT_EQ(different, 0u) << "of " << words << " words";
  finish();
  ok(cudaGraphExecDestroy(executable));
  ok(cudaGraphDestroy(graph));
  testing::Test::RecordProperty("replays", std::to_string(graphs * k_of_graph));
}

void replay_mlp(mlp::Shape const& shape, Plan const& plan) {
  mlp::Stream const stream;
  mlp::Operands const operands(shape, 3, stream);
  mlp::MlpOptions options;
  options.only = plan;
  auto block = mlp::Mlp::make(shape, options);
  ASSERT_TRUE(block) << to_text(block.error());
  auto const enqueue = [&](cudaStream_t in) {
    auto const launched = block->launch(operands.x, operands.w1, operands.w2, operands.y, shape.tokens, in);
    ASSERT_TRUE(launched) << to_text(launched.error());
  };
  replay(enqueue, operands.y, static_cast<std::size_t>(shape.tokens) * static_cast<std::size_t>(shape.model),
         [&] {
           auto const done = block->finish(stream);
           EXPECT_TRUE(done) << to_text(done.error());
         });
  EXPECT_LE(operands.error(shape.tokens), 2e-3);
}

TEST(Replays, MlpOfFewTokensInOneLaunch) {
  mlp::Shape const shape{8, 1024, 768, mlp::Form::gelu, mlp::ElementType::bf16};
  auto const few = mlp::by("few_tokens_8");
  auto const plan =
      plan_of(mlp::graph_of(shape), {{few, few}, Mechanism::fused, 1, true, true}, with_device().value());
  ASSERT_TRUE(plan) << to_text(plan.error());
  replay_mlp(shape, *plan);
}

TEST(Replays, MlpOfTwoGemmsByTiles) {
  mlp::Shape const shape{256, 1024, 768, mlp::Form::swiglu, mlp::ElementType::bf16};
  auto const machine = with_device().value();
  auto const tiles = mlp::by("gemm_128x128x64_2x1", 8, 0);
  auto const plan =
      plan_of(mlp::graph_of(shape), {{tiles, tiles}, Mechanism::pdl_tiles, 1, true, true}, machine);
  ASSERT_TRUE(plan) << to_text(plan.error());
  replay_mlp(shape, *plan);
}

TEST(Replays, ChainOfMlpsInOneLaunch) {
  for (bool const words : {false, true}) {
    mlp::Shape const shape{1, 1024, 768, mlp::Form::gelu, mlp::ElementType::bf16};
    few_tokens::MlpChainConfig config;
    config.tokens_in_data = words;
    few_tokens::Problem const problem(shape, 5);
    auto chain = few_tokens::MlpChain::make(shape, problem.buffers(), config);
    ASSERT_OK(chain);
    // The chain reads what it wrote, so that its input is put back first.
    auto const buffers = problem.buffers();
    auto const bytes = static_cast<std::size_t>(shape.model) * 2;
    DeviceBuffer<unsigned short> input(static_cast<std::size_t>(shape.model));
    ok(cudaMemcpy(input.get(), buffers.x[1], bytes, cudaMemcpyDeviceToDevice));
    auto const enqueue = [&](cudaStream_t in) {
      ok(cudaMemcpyAsync(buffers.x[1], input.get(), bytes, cudaMemcpyDeviceToDevice, in));
      ASSERT_OK(chain->launch(in, 3));
    };
    replay(enqueue, buffers.x[0], static_cast<std::size_t>(shape.model), [&] { ASSERT_OK(chain->finish()); });
    EXPECT_LE(problem.error(3), few_tokens::allowed_error(shape));
  }
}

TEST(Replays, Sum) {
  constexpr std::size_t count = 100'003;
  std::vector<float> numbers(count);
  for (std::size_t i = 0; i < count; ++i) numbers[i] = 1.0f / static_cast<float>(i % 97 + 1);
  DeviceBuffer<float> x(count), out(1);
  x.upload(numbers);
  auto sum = reduction::Sum::make();
  ASSERT_TRUE(sum) << to_text(sum.error());
  auto const enqueue = [&](cudaStream_t in) {
    auto const launched = sum->launch(x.get(), count, out.get(), in);
    ASSERT_TRUE(launched) << to_text(launched.error());
  };
  replay(enqueue, out.get(), 2, [&] { EXPECT_TRUE(sum->finish(nullptr)); });
}

}  // namespace
}  // namespace tessera
