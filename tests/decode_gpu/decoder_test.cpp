// SPDX-License-Identifier: Apache-2.0
// Whole decoders on a GPU, small ones, beside the plain one.
#include <gmock/gmock.h>

#include "decode_gpu/setting.hpp"

namespace tessera::decode {
namespace {

using reference::Numbers;

TEST(Decode, OneSequence) { check({}); }
TEST(Decode, HeadsOf128) {
  Setting s;
  s.model = reference::small_model(128, 2, 3);
  check(s);
}
TEST(Decode, TiedHead) {
  Setting s;
  s.model.tied = true;
  check(s);
}
TEST(Decode, GroupsOfOneAndEight) {
  Setting s;
  s.model = reference::small_model(64, 4, 1);
  check(s);
  s.model = reference::small_model(64, 1, 8);
  check(s);
}
/// As Qwen 2.5's heads: 6 and 7 queries to a key.
TEST(Decode, BiasesOfQueriesKeysAndValues) {
  for (auto const& [head_size, group] : {std::pair{64, 7}, {128, 6}, {128, 8}}) {
    SCOPED_TRACE(std::to_string(group) + " queries, heads of " + std::to_string(head_size));
    Setting s;
    s.model = reference::with_biases(reference::small_model(head_size, 2, group));
    check(s);
  }
}
/// As Helium's and Ernie 4.5's: pairs of neighbours, in steps and in prompts, with biases and without.
TEST(Decode, InterleavedPositions) {
  for (auto const& model :
       {reference::with_interleaved(reference::small_model(128, 2, 2)),
        reference::with_interleaved(reference::with_biases(reference::small_model(64, 2, 3)))})
    for (auto const by : {StepBy::persistent, StepBy::launches}) {
      SCOPED_TRACE(k_step_names[static_cast<int>(by)]);
      Setting s;
      s.model = model, s.by = by;
      if (by == StepBy::launches) s.prompt_rows = 0;
      check(s);
    }
}
/// As Qwen 3's heads, which together are larger than the hidden size.
TEST(Decode, NormedHeads) {
  for (auto const& [head_size, group] : {std::pair{128, 2}, {128, 4}, {64, 3}}) {
    SCOPED_TRACE(std::to_string(group) + " queries, heads of " + std::to_string(head_size));
    Setting s;
    s.model = reference::with_norms(reference::small_model(head_size, 2, group));
    check(s);
  }
}
TEST(Decode, Windows) {
  for (int const window : {1, 7, 16, 33}) {
    SCOPED_TRACE("a window of " + std::to_string(window));
    Setting s;
    s.model = reference::with_window(reference::small_model(64, 2, 4), window);
    s.steps = 60;
    check(s);
    s.model.window_from = 1;
    check(s);
  }
}
TEST(Decode, Pages) {
  for (int const page : {16, 48, 1024})
    for (int const batch : {1, 3, 20}) {
      SCOPED_TRACE("pages of " + std::to_string(page) + ", " + std::to_string(batch) + " sequences");
      Setting s;
      s.page = page;
      s.steps = batch == 1 ? 60 : 20;
      s.prompts.assign(static_cast<std::size_t>(batch), {5, 17, 300});
      for (int i = 0; i < batch; ++i) s.prompts[static_cast<std::size_t>(i)][1] += i;
      check(s);
      s.model = reference::with_norms(reference::with_biases(reference::small_model(128, 2, 3)));
      check(s);
    }
}
/// What a step needs stands in the table when it runs, and not before; without it a sequence is refused, and
/// another one is not.
TEST(Decode, TablesGrow) {
  auto const model = reference::small_model();
  reference::Weights const weights(model, 4);
  WeightsOnDevice const on_device(weights);
  cudaStream_t stream = nullptr;
  gpu::ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  auto const tokens_of = [&](int none, auto const& before_steps) {
    Options options;
    options.batch = 2, options.capacity = 64, options.prompt_rows = 1;
    Paging paging(2, options.capacity, 16);
    auto const whole = paging.numbers;
    std::fill(paging.numbers.begin(), paging.numbers.end(), none);
    for (int s = 0; s < 2; ++s)
      paging.numbers[static_cast<std::size_t>(4 * s)] = whole[static_cast<std::size_t>(4 * s)];
    paging.upload();
    options.paged = paging.paged;
    auto decoder = Decoder::make(model, on_device.weights, options, stream);
    EXPECT_TRUE(decoder) << to_text(decoder.error());
    gpu::ok(cudaDeviceSynchronize());
    EXPECT_TRUE(decoder->prefill(stream, {{1, 2, 3}, {4, 5}}));
    EXPECT_TRUE(decoder->decode(stream, 13));  // up to position 15
    gpu::ok(cudaDeviceSynchronize());
    before_steps(paging, whole);
    gpu::ok(cudaDeviceSynchronize());
    EXPECT_TRUE(decoder->decode(stream, 10));
    return decoder->tokens();
  };
  auto const grown = tokens_of(-1, [](Paging& paging, std::vector<int> const& whole) {
    for (std::size_t const entry : {1u, 5u}) paging.numbers[entry] = whole[entry];
    paging.upload();
  });
  ASSERT_OK(grown);
  Options plain;
  plain.batch = 2, plain.capacity = 64, plain.prompt_rows = 1;
  auto decoder = Decoder::make(model, on_device.weights, plain, stream);
  ASSERT_OK(decoder);
  gpu::ok(cudaDeviceSynchronize());
  ASSERT_OK(decoder->prefill(stream, {{1, 2, 3}, {4, 5}}));
  ASSERT_OK(decoder->decode(stream, 23));
  EXPECT_EQ(*grown, decoder->tokens().value());
  for (int const none : {-1, 10, 1 << 30}) {
    auto const missing = tokens_of(none, [](Paging& paging, std::vector<int> const& whole) {
      paging.numbers[1] = whole[1];
      paging.upload();
    });
    ASSERT_FALSE(missing) << none;
    EXPECT_THAT(
        to_text(missing.error()),
        testing::MatchesRegex("error E0566: the table has no page for position [0-9]+ of sequence 1.*"));
  }
  gpu::ok(cudaStreamDestroy(stream));
}
TEST(Decode, PagesThatCannotBe) {
  auto const model = reference::small_model();
  reference::Weights const weights(model, 4);
  WeightsOnDevice const on_device(weights);
  auto const refusal = [&](PagedCache const& paged) {
    Options options;
    options.paged = paged;
    auto const made = Decoder::make(model, on_device.weights, options, nullptr);
    return made ? "taken" : to_text(made.error());
  };
  gpu::DeviceBuffer<int> table(2048);
  for (int const positions : {-16, 8, 24, 1 << 15})
    EXPECT_THAT(refusal({positions, 100, table.get()}),
                testing::HasSubstr("E0566: pages of " + std::to_string(positions) + " positions"));
  EXPECT_THAT(refusal({16, 0, table.get()}), testing::HasSubstr("E0566: a cache of 0 pages"));
  EXPECT_THAT(refusal({16, 100}), testing::HasSubstr("E0566: a paged cache without a table"));
  EXPECT_THAT(refusal({16, 100, table.get(), table.get()}), testing::HasSubstr("a paged cache without a"));
}
/// LayerNorm with biases, learned positions, an MLP without gates, a vocabulary of any size.
TEST(Decode, GPT2) {
  for (int const batch : {1, 2, 3, 10, 20, 33}) {
    SCOPED_TRACE(std::to_string(batch) + " sequences");
    Setting s;
    s.model = reference::small_gpt2();
    s.steps = batch == 1 ? 60 : 12;
    s.prompts.assign(static_cast<std::size_t>(batch), {5, 17, 300});
    for (int i = 0; i < batch; ++i) s.prompts[static_cast<std::size_t>(i)][1] += i;
    check(s);
  }
  Setting s;
  s.model = reference::small_gpt2(5);  // heads that are not the hidden size together
  s.model.tied = false;
  s.cut.exchange = Exchange::semaphore;
  check(s);
  s.page = 32, s.cut.exchange.reset();
  check(s);
}
TEST(Decode, HeadsOf96) {
  for (int const batch : {1, 2, 3, 10, 20, 33})
    for (int const window : {0, 7}) {
      SCOPED_TRACE(std::to_string(batch) + " sequences, window " + std::to_string(window));
      Setting s;
      s.model = reference::with_window(reference::small_phi3(), window);
      s.steps = batch == 1 ? 40 : 8;
      s.page = batch == 3 ? 16 : 0;
      s.prompts.assign(static_cast<std::size_t>(batch), {5, 17, 300});
      for (int i = 0; i < batch; ++i) s.prompts[static_cast<std::size_t>(i)][1] += i;
      check(s);
    }
}
/// The last position of all.
TEST(Decode, LearnedPositionsEnd) {
  auto const model = reference::small_gpt2();
  reference::Weights const weights(model, 4);
  WeightsOnDevice const on_device(weights);
  Options options;
  options.capacity = model.learned_positions;
  options.keep_logits = true;
  cudaStream_t stream = nullptr;
  gpu::ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  auto decoder = Decoder::make(model, on_device.weights, options, stream);
  ASSERT_OK(decoder);
  gpu::ok(cudaDeviceSynchronize());
  ASSERT_OK(decoder->prefill(stream, {{1, 2, 3}}));
  ASSERT_OK(decoder->decode(stream, model.learned_positions - 3));
  auto const tokens = decoder->tokens();
  ASSERT_OK(tokens);
  ASSERT_EQ(tokens->front().size(), static_cast<std::size_t>(model.learned_positions));
  reference::Sequence plain(weights, reference::Precision::fp32, options.capacity);
  Numbers expected;
  for (int const token : tokens->front()) expected = plain.step(token);
  EXPECT_LE(reference::relative_error(logits_of(*decoder, model, 1).front(), expected), 4e-2);
  ++options.capacity;
  auto const refused = Decoder::make(model, on_device.weights, options, stream);
  ASSERT_FALSE(refused);
  EXPECT_THAT(to_text(refused.error()), testing::HasSubstr("room for 257 tokens of a sequence"));
  gpu::ok(cudaStreamDestroy(stream));
}
TEST(Decode, AllExtrasOfManySequences) {
  for (int const batch : {2, 10, 20, 33})
    for (int const head_size : {64, 128}) {
      SCOPED_TRACE(std::to_string(batch) + " sequences, heads of " + std::to_string(head_size));
      Setting s;
      s.model = reference::with_norms(reference::with_biases(reference::small_model(head_size, 2, 3)));
      s.model.out_biases = true;
      s.steps = 6;
      s.prompts.assign(static_cast<std::size_t>(batch), {5, 17, 300});
      for (int i = 0; i < batch; ++i) s.prompts[static_cast<std::size_t>(i)][1] += i;
      check(s);
    }
}
TEST(Decode, SplitsAndSlots) {
  for (int const splits : {1, 2, 7, 32})
    for (int const kilobytes : {8, 16, 28, 48}) {
      Setting s;
      s.steps = 40;
      s.cut.splits = splits, s.cut.slot_bytes = kilobytes * 1024;
      SCOPED_TRACE(std::to_string(splits) + " parts, slots of " + std::to_string(kilobytes) + " KB");
      check(s);
    }
}
/// Results as words, which one and two sequences have where nothing else is asked for, and behind semaphores.
TEST(Decode, WordsAndSemaphores) {
  for (auto const exchange : {Exchange::words, Exchange::semaphore})
    for (int const head_size : {64, 128})
      for (int const batch : {1, 2}) {
        SCOPED_TRACE(std::string(exchange == Exchange::words ? "words, " : "semaphores, ") +
                     std::to_string(batch) + " sequences, heads of " + std::to_string(head_size));
        Setting s;
        s.model = reference::small_model(head_size, 2, 3);
        s.cut.exchange = exchange;
        s.steps = 40;
        s.prompts.resize(1);
        if (batch == 2) s.prompts.push_back({9, 300, 2, 44, 17});
        check(s);
      }
}
TEST(Decode, SequencesOfUnequalPrompts) {
  for (int const batch : {2, 5, 8, 9, 20, 33}) {
    SCOPED_TRACE(std::to_string(batch) + " sequences");
    Setting s;
    s.steps = 6;
    s.prompts.clear();
    for (int i = 0; i < batch; ++i) {
      s.prompts.emplace_back();
      for (int p = 0; p <= i % 7; ++p) s.prompts.back().push_back((31 * i + 101 * p + 7) % 512);
    }
    check(s);
  }
}
/// Products of several tiles to a block, and a head of several parts, some of which have a row fewer.
TEST(Decode, FewBlocks) {
  for (int const blocks : {3, 7})
    for (int const batch : {1, 10}) {
      SCOPED_TRACE(std::to_string(blocks) + " blocks, " + std::to_string(batch) + " sequences");
      Setting s;
      s.cut.blocks = blocks;
      s.prompts.assign(static_cast<std::size_t>(batch), {5, 17, 300});
      for (int i = 0; i < batch; ++i) s.prompts[static_cast<std::size_t>(i)][1] += i;
      check(s);
    }
}
/// Slots of one or two k-blocks, which two, three and four warps fill in turns, each behind its own
/// producers.
TEST(Decode, WarpsLoadActivationsInTurns) {
  for (int const warps : {1, 2, 3, 4})
    for (int const batch : {1, 10}) {
      SCOPED_TRACE(std::to_string(warps) + " warps, " + std::to_string(batch) + " sequences");
      Setting s;
      s.steps = 30;
      s.cut.slot_bytes = 512, s.cut.late_slot_bytes = 128, s.cut.late_warps = warps;
      s.cut.exchange = Exchange::semaphore;  // words have no such ring
      s.prompts.assign(static_cast<std::size_t>(batch), {5, 17, 300});
      for (int i = 0; i < batch; ++i) s.prompts[static_cast<std::size_t>(i)][1] += i;
      check(s);
    }
}
/// Stamps of every tile of every layer, in the order of what a tile does.
TEST(Decode, KeepsTimesOfTiles) {
  auto const model = reference::small_model();
  reference::Weights const weights(model, 4);
  WeightsOnDevice const on_device(weights);
  Options options;
  options.capacity = 64;
  options.keep_times = true;
  cudaStream_t stream = nullptr;
  gpu::ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  auto decoder = Decoder::make(model, on_device.weights, options, stream);
  ASSERT_OK(decoder);
  gpu::ok(cudaDeviceSynchronize());
  ASSERT_OK(decoder->prefill(stream, {{1, 2, 3}}));
  ASSERT_OK(decoder->finish());
  unsigned long long before = 0;  // the last store of the stage before
  for (int layer = 0; layer < model.layers; ++layer)
    for (int s = 0; s < k_stages; ++s) {
      auto const tiles = static_cast<std::size_t>(decoder->tiles().of[static_cast<std::size_t>(s)]);
      std::vector<few_tokens::TileTimes> times(tiles);
      gpu::ok(cudaMemcpy(times.data(),
                         decoder->tile_times(static_cast<Stage>(s)) + static_cast<std::size_t>(layer) * tiles,
                         tiles * sizeof(times[0]), cudaMemcpyDeviceToHost));
      unsigned long long last = 0;
      for (auto const& one : times) {
        ASSERT_GT(one.begun, 0u) << layer << ", " << s;
        ASSERT_LE(one.begun, one.fed);
        ASSERT_LE(one.fed, one.read);
        ASSERT_LE(one.read, one.stored);
        last = std::max(last, one.stored);
      }
      ASSERT_LE(before, last) << layer << ", " << s;
      before = last;
    }
  options.keep_times = false;
  auto const other = decoder->another(options, nullptr);
  ASSERT_OK(other);
  EXPECT_EQ(other->tile_times(k_qkv), nullptr);
  ASSERT_OK(decoder->finish());
  gpu::ok(cudaStreamDestroy(stream));
}
TEST(Decode, HeadStartsEarly) {
  Setting s;
  s.head_starts_early = true;
  s.steps = 30;
  check(s);
}
TEST(Decode, LongEnoughForManyBlocksOfPositions) {
  Setting s;
  s.steps = 150;
  check(s);
}

/// The same prompt gives the same bits, however often, by graph and by launches.
TEST(Decode, Repeats) {
  auto const model = reference::small_model();
  reference::Weights const weights(model, 9);
  WeightsOnDevice const on_device(weights);
  Options options;
  options.capacity = 80;
  options.keep_logits = true;
  options.prompt_rows = 1;  // at the end steps are told one by one
  auto decoder = Decoder::make(model, on_device.weights, options, nullptr);
  ASSERT_OK(decoder);
  std::vector<Numbers> logits;
  std::vector<std::vector<int>> tokens;
  cudaStream_t stream;
  gpu::ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (int round = 0; round < 4; ++round) {
    ASSERT_OK(decoder->prefill(stream, {{1, 2, 3, 4}}));
    ASSERT_OK(decoder->decode(stream, 60));
    auto const found = decoder->tokens();
    ASSERT_OK(found);
    tokens.push_back((*found)[0]);
    logits.push_back(logits_of(*decoder, model, 1)[0]);
    EXPECT_EQ(tokens.back(), tokens.front());
    EXPECT_EQ(logits.back(), logits.front());
  }
  EXPECT_EQ(tokens.front().size(), 65u);
  // Without a graph, step by step.
  ASSERT_OK(decoder->begin(stream, {{{1, 2, 3, 4}, 0}}));
  for (int i = 0; i < 64; ++i) ASSERT_OK(decoder->step(stream));
  ASSERT_OK(decoder->finish());
  gpu::ok(cudaDeviceSynchronize());
  EXPECT_EQ(logits_of(*decoder, model, 1)[0], logits.front());
  gpu::ok(cudaStreamDestroy(stream));
}

/// A sequence goes on behind what stands in the cache.
TEST(Decode, GoesOnBehindACache) {
  auto const model = reference::small_model();
  reference::Weights const weights(model, 4);
  WeightsOnDevice const on_device(weights);
  Options options;
  options.capacity = 64;
  options.keep_logits = true;
  options.prompt_rows = 1;  // the same kernels for the same tokens: the same bits
  auto decoder = Decoder::make(model, on_device.weights, options, nullptr);
  ASSERT_OK(decoder);
  std::vector<int> const prompt = {9, 8, 7, 6, 5, 4, 3};
  cudaStream_t stream;
  gpu::ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  ASSERT_OK(decoder->prefill(stream, {prompt}));
  ASSERT_OK(decoder->finish());
  auto const expected = logits_of(*decoder, model, 1)[0];
  for (int const cached : {6, 3}) {
    std::vector<int> const rest(prompt.begin() + cached, prompt.end());
    ASSERT_OK(decoder->begin(stream, {{rest, cached}}));
    ASSERT_OK(decoder->decode(stream, static_cast<int>(rest.size())));
    auto const tokens = decoder->tokens();
    ASSERT_OK(tokens);
    EXPECT_EQ((*tokens)[0].size(), rest.size() + 1);
    EXPECT_EQ(logits_of(*decoder, model, 1)[0], expected) << cached << " cached";
  }
  // Another decoder of the same weights does not see this one's cache.
  auto other = decoder->another(options, stream);
  ASSERT_OK(other);
  ASSERT_OK(other->begin(stream, {{{3}, 6}}));
  ASSERT_OK(other->decode(stream, 1));
  ASSERT_OK(other->finish());
  EXPECT_NE(logits_of(*other, model, 1)[0], expected);
  ASSERT_OK(other->prefill(stream, {prompt}));
  ASSERT_OK(other->finish());
  EXPECT_EQ(logits_of(*other, model, 1)[0], expected);
  gpu::ok(cudaStreamDestroy(stream));
}

/// What is refused before anything is enqueued.
TEST(Decode, Refusals) {
  auto const model = reference::small_model();
  reference::Weights const weights(model, 4);
  WeightsOnDevice const on_device(weights);
  auto const refused = [&](auto const& outcome, std::string const& words) {
    ASSERT_FALSE(outcome) << words;
    EXPECT_EQ(outcome.error().front().code, "E0566");
    EXPECT_NE(to_text(outcome.error()).find(words), std::string::npos) << to_text(outcome.error());
  };
  Options options;
  options.capacity = 10;
  options.batch = 3, options.cut.exchange = Exchange::words;
  refused(Decoder::make(model, on_device.weights, options, nullptr),
          "3 sequences whose results travel as words");
  options.cut.exchange = Exchange::cluster;
  refused(Decoder::make(model, on_device.weights, options, nullptr),
          "3 sequences whose results travel through clusters");
  options.batch = 1, options.cut.exchange.reset();
  for (int const rows : {-1, 8193}) {
    options.prompt_rows = rows;
    refused(Decoder::make(model, on_device.weights, options, nullptr),
            std::to_string(rows) + " rows of prompts to a step");
  }
  options.prompt_rows = 0;
  options.most_bytes = 1000000;
  refused(Decoder::make(model, on_device.weights, options, nullptr), "1000000 are allowed");
  options.most_bytes = Decoder::bytes_of(model, options);
  auto decoder = Decoder::make(model, on_device.weights, options, nullptr);
  ASSERT_OK(decoder);
  refused(decoder->decode(nullptr, 1), "have not begun");
  refused(decoder->prefill(nullptr), "have not begun");
  refused(decoder->begin(nullptr, {{{1}, 0}, {{2}, 0}}), "2 sequences for a decoder of 1");
  refused(decoder->begin(nullptr, {{{1, 512}, 0}}), "token 512 of a vocabulary of 512");
  refused(decoder->begin(nullptr, {{{}, 3}}), "a sequence of 0 tokens behind 3 cached");
  refused(decoder->begin(nullptr, {{{1, 2}, 9}}),
          "a sequence of 2 tokens behind 9 cached ones, with room for 10");
  ASSERT_OK(decoder->begin(nullptr, {{{1}, 4}}));
  refused(decoder->decode(nullptr, 7), "7 steps behind 4 tokens, with room for 10");
  auto none = on_device.weights;
  none.layers[1].up = nullptr;
  refused(Decoder::make(model, none, options, nullptr), "is missing");
  auto extra = on_device.weights;
  extra.layers[1].k_bias = extra.layers[1].k;
  refused(Decoder::make(model, extra, options, nullptr), "are missing, or are not the model's");
  for (auto const member : {&Model::qkv_biases, &Model::out_biases, &Model::norms_heads}) {
    auto with_extras = model;
    with_extras.*member = true;
    options.most_bytes = 0;
    refused(Decoder::make(with_extras, on_device.weights, options, nullptr),
            "biases, norms of heads or positions of a decoder are missing");
  }
  none.layers.pop_back();
  refused(Decoder::make(model, none, options, nullptr), "weights of 1 layers for a model of 2");
}

}  // namespace
}  // namespace tessera::decode
