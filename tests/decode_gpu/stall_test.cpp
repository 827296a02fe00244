// SPDX-License-Identifier: Apache-2.0
// Steps that wait for longer than their deadline: what is said, and what comes after.
#include <gmock/gmock.h>

#include <cstdio>

#include "decode_gpu/own_stream.hpp"
#include "decode_gpu/small_decoder.hpp"
#include "gpu/told_flag.hpp"
#include "run_gpu/held_sms.hpp"

namespace tessera::decode {
namespace {

using testing::ContainsRegex;

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

/// A decoder of one layer, and how many of its tokens keep attention busy for some deadlines.
struct Slow {
  Model model;
  Options options;
  int cached = 0;         ///< of sequences with even numbers; the others have none
  int prompt_cached = 0;  ///< the same, for steps that read prompts; 0: there are none
  std::string waits = "out[_0-9]* tile \\([0-9]+\\) waits for attention";
};

/// Steps of the graph, one without it, and one that reads prompts, in which a warp reads a token's positions.
void stalls_and_goes_on(Slow slow) {
  slow.model.layers = 1;
  slow.options.capacity = 1 << 17;
  reference::Weights const weights(slow.model, 6);
  WeightsOnDevice const on_device(weights);
  auto decoder = Decoder::make(slow.model, on_device.weights, slow.options, nullptr);
  ASSERT_OK(decoder);
  gpu::ok(cudaDeviceSynchronize());
  OwnStream const stream;
  std::vector<Tokens> generated;
  int const batch = slow.options.batch;
  generate(*decoder, batch, stream, generated);
  for (int round = 0; round < (slow.prompt_cached > 0 ? 3 : 2); ++round) {
    bool const of_prompts = round == 2;
    int const cached = of_prompts ? slow.prompt_cached : slow.cached;
    std::vector<Sequence> sequences;
    for (int i = 0; i < batch; ++i)
      sequences.push_back({of_prompts ? std::vector{1, 2} : std::vector{1}, i % 2 == 0 ? cached : 0});
    gpu::ok(cudaDeviceSynchronize());
    ASSERT_OK(decoder->begin(stream, sequences));
    if (of_prompts)
      ASSERT_OK(decoder->prefill(stream));
    else
      ASSERT_OK(round == 0 ? decoder->decode(stream, 2) : decoder->step(stream));
    auto const stalled = decoder->finish();
    ASSERT_FALSE(stalled) << "a block took longer than a deadline, and nothing waited for it";
    EXPECT_EQ(stalled.error().front().code, "E0520");
    EXPECT_THAT(to_text(stalled.error()), ContainsRegex(slow.waits));
    EXPECT_THAT(to_text(stalled.error()), ContainsRegex("; layer 0 of 1"));
    if (round == 0) std::printf("%s\n", to_text(stalled.error()).c_str());
    EXPECT_FALSE(decoder->decode(stream, 1)) << "sequences are lost";
    generate(*decoder, batch, stream, generated);
    EXPECT_EQ(generated.back(), generated.front()) << "round " << round;
  }
}

/// Four blocks: tiles of attention go round in turns, so that two blocks have all sequences of even numbers.
/// With 131,000 cached tokens in each of these they read 1 GB for 20 ms or more, and the others wait for them
/// with a deadline of 5. Shorter deadlines would not do: finish() gives up after ten of them.
TEST(DecodeStall, NamesOperatorLayerAndTileAndTheNextSequenceIsRight) {
  Slow slow{reference::small_model(), {}, 131000, 60000};
  slow.options.batch = 64, slow.options.prompt_rows = 64;  // a pass waits for nothing
  slow.options.cut.blocks = 4, slow.options.cut.splits = 1;
  slow.options.deadline_seconds = 0.005;
  stalls_and_goes_on(slow);
}

/// Two blocks with one tile of attention each: the first reads 67 MB for 1 ms or more, the second looks at
/// its words. What a launch that gave up has left of them must not be taken for words of the next one.
TEST(DecodeStall, OfWordsIsNamedAndTheNextSequenceIsRight) {
  Slow slow{reference::small_model(128, 1, 4), {}, 131000};
  slow.options.batch = 2;
  slow.options.cut.blocks = 2, slow.options.cut.splits = 1;
  slow.options.cut.exchange = Exchange::words;
  slow.options.deadline_seconds = 0.0004;
  slow.waits = "out[_0-9]* tile \\([0-9]+\\) waits for data .*it reads attended of attention";
  stalls_and_goes_on(slow);
}

/// Nobody has called finish(): what is asked for next says it, whatever that is, and nothing goes on behind
/// it but new sequences.
TEST(DecodeStall, IsSaidByTheNextCall) {
  auto model = reference::small_model(128, 1, 4);
  model.layers = 1;
  Options options;
  options.batch = 2;
  options.capacity = 1 << 17;
  options.cut.blocks = 2, options.cut.splits = 1;
  options.cut.exchange = Exchange::words;
  options.deadline_seconds = 0.0004;
  reference::Weights const weights(model, 6);
  WeightsOnDevice const on_device(weights);
  auto decoder = Decoder::make(model, on_device.weights, options, nullptr);
  ASSERT_OK(decoder);
  gpu::ok(cudaDeviceSynchronize());
  OwnStream const stream;
  std::vector<Tokens> generated;
  generate(*decoder, 2, stream, generated);
  std::vector<Sequence> const sequences = {{{1}, 131000}, {{1}, 0}};
  using Call = Expected<void> (*)(Decoder&, cudaStream_t, std::vector<Sequence> const&);
  Call const calls[] = {
      [](Decoder& d, cudaStream_t in, auto const&) { return d.step(in); },
      [](Decoder& d, cudaStream_t in, auto const&) { return d.decode(in, 1); },
      [](Decoder& d, cudaStream_t in, auto const&) { return d.prefill(in); },
      [](Decoder& d, cudaStream_t in, auto const&) { return d.rewind(in); },
      [](Decoder& d, cudaStream_t in, auto const& all) { return d.begin(in, all); },
  };
  for (auto const call : calls) {
    SCOPED_TRACE(&call - calls);
    gpu::ok(cudaDeviceSynchronize());
    ASSERT_OK(decoder->begin(stream, sequences));
    ASSERT_OK(decoder->decode(stream, 1));
    gpu::ok(cudaDeviceSynchronize());
    ASSERT_TRUE(decoder->stalled());
    auto const said = call(*decoder, stream, sequences);
    ASSERT_FALSE(said);
    EXPECT_EQ(said.error().front().code, "E0520");
    EXPECT_THAT(to_text(said.error()), ContainsRegex("out[_0-9]* tile"));
    EXPECT_FALSE(decoder->stalled());
    for (auto const& again : {decoder->step(stream), decoder->decode(stream, 1)}) {
      ASSERT_FALSE(again) << "sequences are lost";
      EXPECT_EQ(again.error().front().code, "E0566");
    }
    EXPECT_FALSE(decoder->tokens()) << "no tokens are right that nobody has";
    generate(*decoder, 2, stream, generated);
    EXPECT_EQ(generated.back(), generated.front());
  }
}

/// Something else that this thread launched has stalled: that is said once, and costs no sequence.
TEST(DecodeStall, OfSomethingElseLosesNothing) {
  auto const model = reference::small_model();
  reference::Weights const weights(model, 6);
  WeightsOnDevice const on_device(weights);
  Options options;
  options.capacity = 64, options.steps = StepBy::persistent;
  auto decoder = Decoder::make(model, on_device.weights, options, nullptr);
  ASSERT_OK(decoder);
  OwnStream const stream;
  std::vector<Tokens> generated;
  generate(*decoder, 1, stream, generated);
  gpu::ToldFlag neighbour;
  ASSERT_EQ(neighbour.make("a neighbour"), cudaSuccess);
  neighbour.launched();
  using Call = Expected<void> (*)(Decoder&, cudaStream_t);
  Call const calls[] = {
      [](Decoder& d, cudaStream_t in) { return d.prefill(in); },
      [](Decoder& d, cudaStream_t in) { return d.decode(in, 10); },
      [](Decoder& d, cudaStream_t in) { return d.decode(in, 10); },
      [](Decoder& d, cudaStream_t) { return d.finish(); },
      [](Decoder& d, cudaStream_t) -> Expected<void> {
        auto const tokens = d.tokens();
        return tokens ? Expected<void>{} : tl::make_unexpected(tokens.error());
      },
  };
  ASSERT_OK(decoder->begin(stream, {{{1, 2, 3}, 0}}));
  for (auto const call : calls) {
    SCOPED_TRACE(&call - calls);
    __atomic_store_n(neighbour.address(), 1u, __ATOMIC_RELEASE);
    auto const refused = call(*decoder, stream);
    ASSERT_FALSE(refused);
    EXPECT_THAT(to_text(refused.error()), testing::HasSubstr("an earlier launch of a neighbour gave up"));
    EXPECT_FALSE(decoder->stalled());
    ASSERT_OK(call(*decoder, stream));
    neighbour.lower();
  }
  auto const tokens = decoder->tokens();
  ASSERT_OK(tokens);
  EXPECT_EQ(*tokens, generated.front());
  // A step by itself, and sequences that begin, say it and go on, too.
  __atomic_store_n(neighbour.address(), 1u, __ATOMIC_RELEASE);
  EXPECT_FALSE(decoder->step(stream));
  ASSERT_OK(decoder->step(stream));
  neighbour.lower();
  generate(*decoder, 1, stream, generated);
  EXPECT_EQ(generated.back(), generated.front());
}

/// A launch begins when the driver has a place for all its blocks: an SM that is held for four deadlines
/// makes it late, not wrong.
TEST(DecodeStall, WaitsForAnSmThatIsHeld) {
  auto const model = reference::small_model();
  reference::Weights const weights(model, 6);
  WeightsOnDevice const on_device(weights);
  Options options;
  options.capacity = 64, options.steps = StepBy::persistent;
  options.deadline_seconds = 0.05;
  auto decoder = Decoder::make(model, on_device.weights, options, nullptr);
  ASSERT_OK(decoder);
  OwnStream const stream;
  std::vector<Tokens> generated;
  generate(*decoder, 1, stream, generated);
  gpu::ok(cudaDeviceSynchronize());
  ASSERT_OK(decoder->begin(stream, {{{1, 2, 3}, 0}}));
  gpu::HeldSms const held(1, 0.2);
  ASSERT_OK(decoder->prefill(stream));
  ASSERT_OK(decoder->decode(stream, 20));
  auto const tokens = decoder->tokens();
  ASSERT_OK(tokens);
  EXPECT_EQ(*tokens, generated.front());
}

}  // namespace
}  // namespace tessera::decode
