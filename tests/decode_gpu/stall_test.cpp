// SPDX-License-Identifier: Apache-2.0
// Steps that wait for longer than their deadline: what is said, and what comes after.
#include <gmock/gmock.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "decode_gpu/small_decoder.hpp"
#include "few_tokens_gpu/hold_an_sm.hpp"

namespace tessera::decode {
namespace {

using testing::ContainsRegex;

struct Streams {
  Streams() {
    for (auto* const one : {&held, &own}) gpu::ok(cudaStreamCreateWithFlags(one, cudaStreamNonBlocking));
  }
  ~Streams() {
    for (auto const one : {held, own}) cudaStreamDestroy(one);
  }
  cudaStream_t held = nullptr, own = nullptr;
};

using Tokens = std::vector<std::vector<int>>;

/// Of all sequences, 20 tokens behind a prompt of their own.
void generate(Decoder& decoder, int batch, cudaStream_t stream, std::vector<Tokens>& to) {
  Tokens prompts;
  for (int i = 0; i < batch; ++i) prompts.push_back({1, 2, 3 + i});
  ASSERT_OK(decoder.prefill(stream, prompts));
  ASSERT_OK(decoder.decode(stream, 20));
  auto const tokens = decoder.tokens();
  ASSERT_OK(tokens);
  to.push_back(*tokens);
}

/// Four blocks: tiles of attention go round in turns, so that two blocks have all sequences of even numbers.
/// With 131,000 cached tokens in each of these they read 1 GB for 20 ms or more, and the others wait for them
/// with a deadline of 5. Shorter deadlines would not do: finish() gives up after ten of them.
TEST(DecodeStall, NamesOperatorLayerAndTileAndTheNextSequenceIsRight) {
  auto model = reference::small_model();
  model.layers = 1;
  reference::Weights const weights(model, 6);
  WeightsOnDevice const on_device(weights);
  Options options;
  options.batch = 64;
  options.capacity = 1 << 17;
  options.cut.blocks = 4, options.cut.splits = 1;
  options.deadline_seconds = 0.005;
  auto decoder = Decoder::make(model, on_device.weights, options, nullptr);
  ASSERT_OK(decoder);
  gpu::ok(cudaDeviceSynchronize());
  Streams const streams;
  std::vector<Tokens> generated;
  generate(*decoder, options.batch, streams.own, generated);
  // Steps of the graph, one without it, and one that reads prompts, in which a warp reads a token's
  // positions.
  for (int round = 0; round < 3; ++round) {
    bool const of_prompts = round == 2;
    std::vector<Sequence> sequences;
    for (int i = 0; i < options.batch; ++i)
      if (of_prompts)
        sequences.push_back({{1, 2}, i % 2 == 0 ? 60000 : 0});
      else
        sequences.push_back({{1}, i % 2 == 0 ? 131000 : 0});
    gpu::ok(cudaDeviceSynchronize());
    ASSERT_OK(decoder->begin(streams.own, sequences));
    if (of_prompts)
      ASSERT_OK(decoder->prefill(streams.own));
    else
      ASSERT_OK(round == 0 ? decoder->decode(streams.own, 2) : decoder->step(streams.own));
    auto const stalled = decoder->finish();
    ASSERT_FALSE(stalled) << "two blocks took longer than a deadline, and nothing waited for them";
    EXPECT_EQ(stalled.error().front().code, "E0520");
    EXPECT_THAT(to_text(stalled.error()), ContainsRegex("out[_0-9]* tile \\([0-9]+\\) waits for attention"));
    EXPECT_THAT(to_text(stalled.error()), ContainsRegex("; layer 0 of 1"));
    if (round == 0) std::printf("%s\n", to_text(stalled.error()).c_str());
    EXPECT_FALSE(decoder->decode(streams.own, 1)) << "sequences are lost";
    generate(*decoder, options.batch, streams.own, generated);
    EXPECT_EQ(generated.back(), generated.front()) << "round " << round;
  }
}

/// A launch begins when the driver has a place for all its blocks: an SM that is held for four deadlines
/// makes it late, not wrong.
TEST(DecodeStall, WaitsForAnSmThatIsHeld) {
  auto const model = reference::small_model();
  reference::Weights const weights(model, 6);
  WeightsOnDevice const on_device(weights);
  Options options;
  options.capacity = 64;
  options.deadline_seconds = 0.05;
  auto decoder = Decoder::make(model, on_device.weights, options, nullptr);
  ASSERT_OK(decoder);
  Streams const streams;
  std::vector<Tokens> generated;
  generate(*decoder, 1, streams.own, generated);
  gpu::ok(cudaDeviceSynchronize());
  ASSERT_OK(decoder->begin(streams.own, {{{1, 2, 3}, 0}}));
  gpu::ok(few_tokens::hold_an_sm(streams.held, 0.2));
  std::this_thread::sleep_for(std::chrono::milliseconds(5));  // it has an SM
  ASSERT_OK(decoder->prefill(streams.own));
  ASSERT_OK(decoder->decode(streams.own, 20));
  auto const tokens = decoder->tokens();
  ASSERT_OK(tokens);
  EXPECT_EQ(*tokens, generated.front());
}

}  // namespace
}  // namespace tessera::decode
