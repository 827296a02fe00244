// SPDX-License-Identifier: Apache-2.0
// Steps by a launch for each operator: whole small decoders beside the plain one.
#include "decode_gpu/own_stream.hpp"
#include "decode_gpu/setting.hpp"
#include "kernels/decode/operator_times.hpp"
#include "kernels/decode/token_roles.hpp"
#include "src/bench/machine_of_gpu.hpp"

namespace tessera::decode {
namespace {

std::vector<int> prompt_of(int length, int seed = 0) {
  std::vector<int> result;
  for (int i = 0; i < length; ++i) result.push_back((31 * seed + 101 * i + i * i + 7) % 512);
  return result;
}
std::vector<std::vector<int>> prompts_of(int count, int longest) {
  std::vector<std::vector<int>> result;
  for (int i = 0; i < count; ++i) result.push_back(prompt_of(1 + i * 37 % longest, i));
  return result;
}
Setting setting(Model model, std::vector<std::vector<int>> prompts) {
  Setting s;
  s.model = std::move(model), s.prompts = std::move(prompts);
  s.by = StepBy::launches;
  s.steps = 4;
  return s;
}

/// With so many parts that attention has more blocks than a GPU has SMs, and takes those of which two or more
/// are on an SM.
void check_many(Setting s) {
  constexpr int k_most_sms = 144;
  s.cut.splits = k_most_splits;
  for (int const more_than : {k_most_sms, 2 * k_most_sms}) {
    s.beside_mean = more_than > k_most_sms;
    while (s.cut.splits * static_cast<int>(s.prompts.size()) * s.model.kv_heads <= more_than)
      s.prompts.push_back(prompt_of(3, static_cast<int>(s.prompts.size())));
    check(s);
  }
}

TEST(DecodeLaunched, Batches) {
  for (int const batch : {1, 2, 7, 16, 33, 64}) {
    SCOPED_TRACE(std::to_string(batch) + " sequences");
    auto s = setting(reference::small_model(), prompts_of(batch, 50));
    s.prompt_rows = 0;
    check(s);
  }
}
/// Products by our kernel alone, and by the library alone, whichever is faster: norms begin early or late
/// with them, and SwiGLU is in a product or behind it.
class DecodeProducts : public testing::TestWithParam<ProductsOf> {};
INSTANTIATE_TEST_SUITE_P(DecodeLaunched, DecodeProducts,
                         testing::Values(ProductsOf::library, ProductsOf::ours));
TEST_P(DecodeProducts, OfOneKind) {
  using namespace reference;
  for (auto const& model : {small_model(), with_norms(with_biases(small_model(128, 2, 2))), small_gpt2()})
    for (int const batch : {2, 16, 40}) {
      SCOPED_TRACE(model.name + ", " + std::to_string(batch) + " sequences");
      auto s = setting(model, prompts_of(batch, 50));
      s.prompt_rows = 0, s.steps = 8, s.products_of = GetParam();
      check(s);
    }
}
/// One product by the library among ours: who adds biases, and who norms, differs with each.
TEST(DecodeLaunched, OneProductByTheLibrary) {
  using namespace reference;
  auto const with_all = with_norms(with_biases(small_model(128, 2, 2)));
  for (auto const which :
       {LayerOperator::qkv, LayerOperator::out, LayerOperator::gate_up, LayerOperator::down})
    for (auto const& model : {with_all, small_gpt2()}) {
      SCOPED_TRACE(model.name + ", " + operator_name(which));
      auto s = setting(model, prompts_of(16, 50));
      s.prompt_rows = 0, s.steps = 8;
      s.products_of = ProductsOf::ours, s.by_library = {which};
      check(s);
    }
}
/// Launches of a step. Norms, but for the first layer's, SwiGLU and the head's norm are in products of ours;
/// around one of the library's they are not.
TEST(DecodeLaunched, NormsTakeNoLaunch) {
  reference::Weights const weights(reference::small_model(), 3);
  WeightsOnDevice const on_device(weights);
  OwnStream const stream;
  auto const launches = [&](std::vector<LayerOperator> const& by_library) -> std::size_t {
    Options options;
    options.batch = 16, options.capacity = 160, options.steps = StepBy::launches;
    options.products_of = ProductsOf::ours, options.by_library = by_library;
    auto decoder = Decoder::make(weights.model, on_device.weights, options, stream);
    EXPECT_TRUE(decoder);
    if (!decoder) return 0;
    EXPECT_TRUE(decoder->prefill(stream, prompts_of(options.batch, 50)));
    gpu::ok(cudaStreamSynchronize(stream));
    gpu::ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    EXPECT_TRUE(decoder->step(stream));
    cudaGraph_t graph = nullptr;
    gpu::ok(cudaStreamEndCapture(stream, &graph));
    std::size_t nodes = 0;
    gpu::ok(cudaGraphGetNodes(graph, nullptr, &nodes));
    gpu::ok(cudaGraphDestroy(graph));
    return nodes;
  };
  auto const layers = static_cast<std::size_t>(weights.model.layers);
  auto const ours = 5 * layers + 3;  // a norm, and the head's product and search
  EXPECT_EQ(launches({}), ours);
  EXPECT_GE(launches({LayerOperator::qkv}), ours + layers - 1);
  EXPECT_GE(launches({LayerOperator::out}), ours + layers);
  EXPECT_GE(launches({LayerOperator::gate_up}), ours + 2 * layers);
  EXPECT_GE(launches({LayerOperator::down}), ours + layers);
}
/// Steps one behind the other, as fast as they go, come to what each comes to alone.
TEST_P(DecodeProducts, ReplaysAreEqual) {
  reference::Weights const weights(reference::small_model(), 3);
  WeightsOnDevice const on_device(weights);
  OwnStream const stream;
  Options options;
  options.batch = 16, options.capacity = 160, options.steps = StepBy::launches;
  options.products_of = GetParam();
  auto const prompts = prompts_of(options.batch, 50);
  auto decoder = Decoder::make(weights.model, on_device.weights, options, stream);
  ASSERT_OK(decoder);
  std::vector<std::vector<int>> alone;
  for (bool const together : {false, true, true}) {
    ASSERT_OK(decoder->prefill(stream, prompts));
    if (together) {
      ASSERT_OK(decoder->decode(stream, 100));
    } else {
      for (int step = 0; step < 100; ++step) {
        ASSERT_OK(decoder->decode(stream, 1));
        gpu::ok(cudaDeviceSynchronize());
      }
    }
    auto const tokens = decoder->tokens();
    ASSERT_OK(tokens);
    if (alone.empty()) alone = *tokens;
    ASSERT_EQ(*tokens, alone);
  }
}
/// Layers in one launch, and the head by launches.
TEST(DecodeLaunched, TheHeadAlone) {
  for (int const batch : {k_least_launched_head, 8, k_least_launched - 1}) {
    SCOPED_TRACE(std::to_string(batch) + " sequences");
    for (auto const& model : {reference::small_model(), reference::small_gpt2()}) {
      auto s = setting(model, prompts_of(batch, 50));
      s.by = StepBy::fastest, s.cut.exchange = Exchange::semaphore;  // layers are persistent
      for (int const prompt_rows : {0, 1, 128}) {
        s.prompt_rows = prompt_rows;
        check(s);
      }
    }
  }
}
TEST(DecodeLaunched, LongSequencesInParts) {
  for (int const length : {1, 15, 16, 17, 31, 32, 33, 127, 128, 129, 500}) {
    SCOPED_TRACE(std::to_string(length) + " tokens");
    for (int const splits : {0, 1, 2, 5, 8, 9}) {  // a cluster's from 2 to 8
      auto s = setting(reference::small_model(64, 2, 4), {prompt_of(length), prompt_of(3, 1)});
      s.prompt_rows = 128, s.cut.splits = splits;
      check(s);
    }
  }
}
/// What was found for one decoder is for others with as much room alone: sums of parts would lie outside of
/// a smaller one's memory. Long and short ones in turns, asked for so many parts and not, and with pages.
TEST(DecodeLaunched, DecodersOfAllLengthsInOneProcess) {
  for (int const length : {500, 20, 500, 20})
    for (int const splits : {0, 4, 0}) {
      SCOPED_TRACE(std::to_string(length) + " tokens, " + std::to_string(splits) + " parts");
      auto s = setting(reference::small_model(64, 8, 1), prompts_of(4, length));
      s.prompt_rows = 256, s.cut.splits = splits, s.steps = 4;
      check(s);
      s.page = 16;
      check(s);
    }
}
TEST(DecodeLaunched, HeadsAndGroups) {
  for (int const head_size : {64, 96, 128})
    for (int const group : {1, 3, 8}) {
      SCOPED_TRACE(std::to_string(group) + " queries, heads of " + std::to_string(head_size));
      auto s = setting(reference::small_model(head_size, 2, group), {prompt_of(140), prompt_of(33, 1)});
      s.prompt_rows = 128;
      check(s);
      check_many(s);
    }
}
TEST(DecodeLaunched, WhatElseModelsHave) {
  using namespace reference;
  for (auto const& model : {with_biases(small_model(64, 2, 7)), with_norms(small_model(128, 2, 2)),
                            with_window(small_model(128, 2, 4), 70, 1),
                            with_window(small_model(64, 2, 4), 1, 0), small_gpt2(), small_phi3()}) {
    SCOPED_TRACE(model.name + std::to_string(model.heads) + " heads of " + std::to_string(model.head_size));
    auto s = setting(model, {prompt_of(140), prompt_of(37, 1), prompt_of(1)});
    s.prompt_rows = 128;
    check(s);
    check_many(s);
    s.prompt_rows = 1, s.prompts = {prompt_of(5), prompt_of(2, 1)};
    check(s);
  }
}
TEST(DecodeLaunched, Pages) {
  for (int const page : {16, 48, 80}) {
    SCOPED_TRACE("pages of " + std::to_string(page));
    for (int const head_size : {64, 96, 128}) {
      auto s = setting(reference::small_model(head_size, 2, 4), prompts_of(17, 150));
      s.page = page, s.prompt_rows = 256;
      check(s);
      check_many(s);
    }
  }
}

/// The same tokens however often graphs of steps are replayed, and in each decoder. With parts, whose sums
/// are put together by a cluster, or by whoever ends last.
TEST(DecodeLaunched, ReplaysAreEqual) {
  reference::Weights const weights(reference::small_model(), 3);
  WeightsOnDevice const on_device(weights);
  OwnStream const stream;
  Options options;
  options.batch = 3, options.capacity = 160, options.steps = StepBy::launches;
  auto const prompts = prompts_of(options.batch, 50);
  for (int const splits : {6, 12}) {
    options.cut.splits = splits;
    std::vector<std::vector<int>> first;
    for (int round = 0; round < 3; ++round) {
      auto decoder = Decoder::make(weights.model, on_device.weights, options, stream);
      ASSERT_OK(decoder);
      for (int again = 0; again < 3; ++again) {
        ASSERT_OK(decoder->prefill(stream, prompts));
        ASSERT_OK(decoder->decode(stream, 100));
        auto const tokens = decoder->tokens();
        ASSERT_OK(tokens);
        if (first.empty()) first = *tokens;
        ASSERT_EQ(*tokens, first) << splits << " parts";
      }
    }
  }
}

/// finish() waits for replays of a graph that a caller has captured, too.
TEST(DecodeLaunched, CapturedSteps) {
  reference::Weights const weights(reference::small_model(), 3);
  WeightsOnDevice const on_device(weights);
  OwnStream const stream;
  Options options;
  options.batch = 20, options.capacity = 200;
  auto const prompts = prompts_of(options.batch, 50);
  auto one = Decoder::make(weights.model, on_device.weights, options, stream);
  ASSERT_OK(one);
  ASSERT_OK(one->prefill(stream, prompts));
  ASSERT_OK(one->decode(stream, 100));
  auto const expected = one->tokens();
  ASSERT_OK(expected);
  auto other = one->another(options, stream);
  ASSERT_OK(other);
  ASSERT_OK(other->prefill(stream, prompts));
  gpu::ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  auto const step = other->step(stream);
  cudaGraph_t graph = nullptr;
  gpu::ok(cudaStreamEndCapture(stream, &graph));
  ASSERT_OK(step);
  cudaGraphExec_t replays = nullptr;
  gpu::ok(cudaGraphInstantiate(&replays, graph, 0));
  for (int i = 0; i < 100; ++i) gpu::ok(cudaGraphLaunch(replays, stream));
  auto const tokens = other->tokens();
  ASSERT_OK(tokens);
  EXPECT_EQ(*tokens, *expected);
  gpu::ok(cudaGraphExecDestroy(replays));
  gpu::ok(cudaGraphDestroy(graph));
}

/// A step in its parts is a step: what the last layer adds is not lost in between.
TEST(DecodeLaunched, LayersAndThenTheHead) {
  for (auto const& model : {reference::small_model(), reference::small_gpt2()}) {
    reference::Weights const weights(model, 3);
    WeightsOnDevice const on_device(weights);
    OwnStream const stream;
    Options options;
    options.batch = 20, options.capacity = 100;
    auto decoder = Decoder::make(weights.model, on_device.weights, options, stream);
    ASSERT_OK(decoder);
    std::vector<std::vector<int>> found;
    for (bool const whole : {true, false}) {
      ASSERT_OK(decoder->prefill(stream, prompts_of(options.batch, 50)));
      for (int i = 0; i < 20; ++i) {
        ASSERT_OK(decoder->step(stream, whole ? Part::all : Part::layers));
        if (!whole) ASSERT_OK(decoder->step(stream, Part::head));
      }
      auto const tokens = decoder->tokens();
      ASSERT_OK(tokens);
      if (whole)
        found = *tokens;
      else
        EXPECT_EQ(*tokens, found);
    }
  }
}

/// Tokens that are drawn: the same by launches of either kind, from logits that are nearly the same, is not
/// to be had; but twice the same, and of the vocabulary.
TEST(DecodeLaunched, DrawnTokens) {
  reference::Weights const weights(reference::small_model(), 3);
  WeightsOnDevice const on_device(weights);
  OwnStream const stream;
  Options options;
  options.batch = 20, options.capacity = 100;
  options.sampling = {0.8, 40, 0.9, 7};
  std::vector<std::vector<int>> found;
  for (int round = 0; round < 2; ++round) {
    auto decoder = Decoder::make(weights.model, on_device.weights, options, stream);
    ASSERT_OK(decoder);
    ASSERT_OK(decoder->prefill(stream, prompts_of(options.batch, 50)));
    ASSERT_OK(decoder->decode(stream, 30));
    auto const tokens = decoder->tokens();
    ASSERT_OK(tokens);
    for (auto const& sequence : *tokens)
      for (int const token : sequence) ASSERT_TRUE(token >= 0 && token < weights.model.vocabulary);
    if (round == 0) found = *tokens;
    EXPECT_EQ(*tokens, found);
  }
  options.sampling = {};
  auto greedy = Decoder::make(weights.model, on_device.weights, options, stream);
  ASSERT_OK(greedy);
  ASSERT_OK(greedy->prefill(stream, prompts_of(options.batch, 50)));
  ASSERT_OK(greedy->decode(stream, 30));
  EXPECT_NE(*greedy->tokens(), found);
}

/// Of some sequences a prediction decides, unless something is asked for that persistent launches alone have.
TEST(DecodeLaunched, PredictionsDecide) {
  auto const here = with_device();
  ASSERT_OK(here);
  auto const profile = bench::named_machine_of_gpu(here->gpu);
  if (!profile || profile->sms != here->sms)
    GTEST_SKIP() << "no profile of " << here->gpu << ": numbers decide";
  OwnStream const stream;
  for (auto const& model : {reference::small_model(64, 2, 4), reference::small_gpt2()}) {
    reference::Weights const weights(model, 3);
    WeightsOnDevice const on_device(weights);
    for (int const batch : {1, 3, k_least_launched - 1}) {
      Options options;
      options.batch = batch, options.capacity = 64;
      auto const made = Decoder::make(model, on_device.weights, options, stream);
      ASSERT_OK(made);
      auto const expected = predicted_steps(StepBy::fastest, model, batch, 63, *profile);
      EXPECT_EQ(made->options().steps, expected) << batch << " sequences";
      EXPECT_EQ(by_launches(made->options()), expected == StepBy::launches) << batch << " sequences";
      options.keep_times = true;
      auto const timed = made->another(options, stream);
      ASSERT_OK(timed);
      EXPECT_FALSE(by_launches(timed->options())) << batch << " sequences";
      // Where memory is for persistent layers alone, these are taken: without passes over prompts launches
      // need more of it.
      options.keep_times = false, options.prompt_rows = 1;
      auto persistent = options;
      if (words_can(batch))
        persistent.steps = StepBy::persistent;
      else
        persistent.cut.exchange = Exchange::semaphore;
      auto const enough = Decoder::bytes_of(model, options);
      options.most_bytes = Decoder::bytes_of(model, persistent);
      ASSERT_LT(options.most_bytes, enough) << batch << " sequences";
      auto const small = made->another(options, stream);
      ASSERT_OK(small);
      EXPECT_FALSE(by_launches(small->options())) << batch << " sequences";
      options.most_bytes = enough;
      auto const large = made->another(options, stream);
      ASSERT_OK(large);
      EXPECT_EQ(by_launches(large->options()), expected == StepBy::launches) << batch << " sequences";
      auto s = setting(model, prompts_of(batch, 50));
      s.by = StepBy::fastest, s.prompt_rows = 0;
      check(s);
    }
  }
}

TEST(DecodeLaunched, FastestTakesThemOfManySequences) {
  Options options;
  EXPECT_FALSE(by_launches(options));
  EXPECT_FALSE(head_by_launches(options));
  options.batch = k_least_launched_head;
  EXPECT_TRUE(head_by_launches(options));
  EXPECT_FALSE(by_launches(options));
  options.batch = k_least_launched;
  EXPECT_TRUE(by_launches(options));
  options.keep_times = true;
  EXPECT_FALSE(by_launches(options));
  options.steps = StepBy::launches;
  EXPECT_TRUE(by_launches(options));
}

}  // namespace
}  // namespace tessera::decode
