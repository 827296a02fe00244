// SPDX-License-Identifier: Apache-2.0
// Tokens that a GPU draws: exactly those of the reference, which sorts all of them, on the same logits; and
// sequences that end.
#include "decode/sampling_reference.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "decode_gpu/small_decoder.hpp"
#include "kernels/decode/sample.hpp"

namespace tessera::decode {
namespace {

using gpu::DeviceBuffer;
using reference::bits_of;

constexpr float k_infinity = std::numeric_limits<float>::infinity();
constexpr float k_nan = std::numeric_limits<float>::quiet_NaN();

std::size_t at(int i) { return static_cast<std::size_t>(i); }

std::vector<float> normal_logits(int count, unsigned seed, double deviation) {
  std::mt19937 random(seed);
  std::normal_distribution<double> distribution(0, deviation);
  std::vector<float> result(at(count));
  for (auto& one : result) one = static_cast<float>(distribution(random));
  return result;
}

/// The launch alone: logits of several sequences, and what it leaves behind.
class Alone {
 public:
  static constexpr int hidden = 64, capacity = 100000;

  explicit Alone(std::vector<std::vector<float>> const& rows)
      : logits_(rows),
        batch_(static_cast<int>(rows.size())),
        vocabulary_(static_cast<int>(rows.front().size())),
        device_logits_(at(batch_) * at(vocabulary_)),
        best_(at(batch_)),
        cached_(at(batch_)),
        known_(at(batch_), 0),
        ended_(at(batch_), 0),
        not_finite_(at(batch_), 0),
        ids_(at(batch_) * at(capacity), 0),
        embedding_(at(vocabulary_) * at(hidden)),
        x_(at(batch_) * at(hidden), 0),
        stream_(at(batch_) * at(hidden), 0) {
    gpu::ok(load_sample());
    std::vector<float> all;
    for (auto const& row : rows) all.insert(all.end(), row.begin(), row.end());
    device_logits_.upload(all);
    std::vector<unsigned short> embedding;
    for (int token = 0; token < vocabulary_; ++token)
      for (int d = 0; d < hidden; ++d)
        embedding.push_back(reference::to_bf16(static_cast<float>(token % 251 + 300 * d + token / 251)));
    embedding_.upload(embedding);
    expected_embedding_ = embedding;
  }

  /// One token of each sequence, for position p of sequence i: p = position + i.
  void check(Sampling const& s, int position) {
    std::vector<int> cached;
    std::vector<unsigned long long> best;
    for (int i = 0; i < batch_; ++i) {
      cached.push_back(position + i - 1);
      best.push_back(reference::sorted_keys(logits_[at(i)]).front());
    }
    cached_.upload(cached), best_.upload(best);
    StepEnd end;
    end.logits = device_logits_.get(), end.draws = true;
    end.best = best_.get(), end.cached = cached_.get(), end.known = known_.get(), end.ids = ids_.get();
    end.ended = ended_.get(), end.not_finite = not_finite_.get();
    end.capacity = capacity, end.hidden = hidden, end.sequences = batch_;
    end.embedding = embedding_.get(), end.x = x_.get(), end.stream = stream_.get();
    gpu::ok(sample(end, draws_of(s, vocabulary_), nullptr));
    gpu::ok(cudaDeviceSynchronize());
    auto const ids = ids_.download();
    auto const x = x_.download();
    auto const stream = stream_.download();
    auto const after = cached_.download();
    for (auto const left : best_.download()) ASSERT_EQ(left, 0u) << "no room for the next step's";
    for (int i = 0; i < batch_; ++i) {
      int const expected = reference::drawn(logits_[at(i)], s, i, position + i);
      ASSERT_EQ(ids[at(i) * at(capacity) + at(position + i)], expected)
          << "sequence " << i << ", position " << position + i << ", temperature " << s.temperature
          << ", top k " << s.top_k << ", top p " << s.top_p;
      ASSERT_EQ(after[at(i)], position + i);
      for (int d = 0; d < hidden; ++d) {
        auto const one = expected_embedding_[at(expected) * at(hidden) + at(d)];
        ASSERT_EQ(x[at(i) * at(hidden) + at(d)], one);
        ASSERT_EQ(stream[at(i) * at(hidden) + at(d)], reference::from_bf16(one));
      }
    }
  }
  std::vector<int> not_finite() { return not_finite_.download(); }

 private:
  std::vector<std::vector<float>> logits_;
  int batch_, vocabulary_;
  DeviceBuffer<float> device_logits_;
  DeviceBuffer<unsigned long long> best_;
  DeviceBuffer<int> cached_, known_, ended_, not_finite_, ids_;
  DeviceBuffer<unsigned short> embedding_, x_;
  DeviceBuffer<float> stream_;
  std::vector<unsigned short> expected_embedding_;
};

std::vector<Sampling> settings(unsigned seed) {
  std::vector<Sampling> result;
  for (double const temperature : {0.01, 0.7, 1.0, 5.0, 1e4})
    for (int const top_k : {0, 1, 2, 40, 1000})
      for (double const top_p : {1e-9, 0.3, 0.9, 1.0}) result.push_back({temperature, top_k, top_p, seed});
  return result;
}

TEST(DecodeSampling, DrawsWhatTheReferenceDraws) {
  for (int const vocabulary : {64, 512, 4096}) {
    SCOPED_TRACE(std::to_string(vocabulary) + " tokens");
    std::vector<std::vector<float>> rows;
    for (unsigned i = 0; i < 9; ++i) rows.push_back(normal_logits(vocabulary, i, 0.5 + i));
    for (auto& one : rows[3]) one = std::round(one);  // many alike
    rows[4].assign(at(vocabulary), -0.0f);            // all
    rows[5][7] = -k_infinity, rows[5][8] = -k_infinity;
    Alone alone(rows);
    int position = 1;
    for (auto const& s : settings(17)) {
      alone.check(s, position += 13);
      if (HasFatalFailure()) return;
    }
    EXPECT_EQ(alone.not_finite(), std::vector<int>(9, 0));
  }
}
TEST(DecodeSampling, LargeVocabulary) {
  std::vector<std::vector<float>> rows = {normal_logits(128256, 1, 3), normal_logits(128256, 2, 0.1)};
  rows.emplace_back(128256, 2.5f);
  Alone alone(rows);
  int position = 1;
  for (double const top_p : {0.5, 1.0})
    for (int const top_k : {0, 50, 256, 257, 2000, 100000})
      for (int i = 0; i < 5; ++i) {
        alone.check({1.0, top_k, top_p, 1ull << 40}, position += 7);
        if (HasFatalFailure()) return;
      }
}
/// More logits than a block has room for.
TEST(DecodeSampling, LargerThanSharedMemory) {
  Alone alone({normal_logits(400001, 3, 2)});
  int position = 1;
  for (int const top_k : {0, 40, 300000})
    for (double const top_p : {0.9, 1.0}) {
      alone.check({0.9, top_k, top_p, 11}, position += 7);
      if (HasFatalFailure()) return;
    }
}
TEST(DecodeSampling, ManySequences) {
  std::vector<std::vector<float>> rows;
  for (unsigned i = 0; i < 64; ++i) rows.push_back(normal_logits(512, i % 5, 2));
  Alone alone(rows);
  for (int position = 1; position < 40; ++position) {
    alone.check({1, 20, 0.95, 3}, position);
    if (HasFatalFailure()) return;
  }
}
TEST(DecodeSampling, SaysWhatIsNotFinite) {
  std::vector<std::vector<float>> rows(4, normal_logits(512, 1, 2));
  rows[1][100] = k_nan, rows[2][100] = k_infinity, rows[3].assign(512, -k_infinity);
  Alone alone(rows);
  alone.check({1, 0, 0.9, 3}, 5);  // the token of the largest key
  alone.check({1, 0, 0.9, 3}, 20);
  EXPECT_EQ(alone.not_finite(), (std::vector<int>{0, 6, 7, 8})) << "the first time";
}

struct Small {
  Model model = reference::small_model();
  reference::Weights weights{model, 21};
  WeightsOnDevice on_device{weights};
  cudaStream_t stream = nullptr;

  Small() { gpu::ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)); }
  ~Small() { cudaStreamDestroy(stream); }
  Expected<Decoder> decoder(Options const& options) const {
    return Decoder::make(model, on_device.weights, options, stream);
  }
};
using Tokens = std::vector<std::vector<int>>;
Tokens const k_prompts = {{5, 17, 300}, {9, 9, 9, 9, 9, 9, 9, 9}, {1}};

/// In the graph of a step: what is drawn is what the reference draws from the logits of that step.
TEST(DecodeSampling, WholeDecoders) {
  Small const small;
  Options options;
  options.batch = 3, options.capacity = 64, options.steps = StepBy::persistent;
  options.keep_logits = true;
  options.sampling = {1.3, 30, 0.95, 77};
  for (int const rows : {0, 1}) {
    options.prompt_rows = rows;
    auto decoder = small.decoder(options);
    ASSERT_OK(decoder);
    Tokens first;
    for (int round = 0; round < 2; ++round) {
      ASSERT_OK(decoder->prefill(small.stream, k_prompts));
      for (int step = 0; step < 20; ++step) {
        ASSERT_OK(decoder->decode(small.stream, step > 0 ? 1 : 0));
        auto const tokens = decoder->tokens();
        ASSERT_OK(tokens);
        auto const logits = logits_of(*decoder, small.model, 3);
        for (std::size_t i = 0; i < 3; ++i) {
          auto const& all = (*tokens)[i];
          if (all.size() <= k_prompts[i].size()) continue;
          ASSERT_EQ(all.back(), reference::drawn(logits[i], options.sampling, static_cast<int>(i),
                                                 static_cast<int>(all.size()) - 1))
              << "step " << step << ", sequence " << i;
        }
      }
      auto const tokens = decoder->tokens();
      ASSERT_OK(tokens);
      if (round == 0) first = *tokens;
      EXPECT_EQ(*tokens, first) << "the same seed";
    }
    auto other_seed = options;
    other_seed.sampling.seed = 78;
    auto other = decoder->another(other_seed, small.stream);
    ASSERT_OK(other);
    ASSERT_OK(other->prefill(small.stream, k_prompts));
    ASSERT_OK(other->decode(small.stream, 19));
    auto const tokens = other->tokens();
    ASSERT_OK(tokens);
    EXPECT_NE(*tokens, first);
  }
}
TEST(DecodeSampling, TheMostLikelyOfOneIsGreedy) {
  Small const small;
  Options options;
  options.batch = 3, options.capacity = 64, options.steps = StepBy::persistent;
  auto greedy = small.decoder(options);
  ASSERT_OK(greedy);
  options.sampling = {1, 1, 1, 5};
  auto one = greedy->another(options, small.stream);
  ASSERT_OK(one);
  for (auto* const decoder : {&*greedy, &*one}) {
    ASSERT_OK(decoder->prefill(small.stream, k_prompts));
    ASSERT_OK(decoder->decode(small.stream, 30));
  }
  auto const expected = greedy->tokens(), found = one->tokens();
  ASSERT_OK(expected);
  ASSERT_OK(found);
  EXPECT_EQ(*found, *expected);
}

/// What a decoder without stop tokens generates, up to the first of them.
Tokens stopped(Tokens tokens, std::vector<int> const& stops) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    auto const end = std::find_first_of(tokens[i].begin() + static_cast<std::ptrdiff_t>(k_prompts[i].size()),
                                        tokens[i].end(), stops.begin(), stops.end());
    if (end != tokens[i].end()) tokens[i].erase(end + 1, tokens[i].end());
  }
  return tokens;
}
/// A token of a prompt does not end it; a sequence that has ended keeps what it has, and the others go on.
TEST(DecodeStops, SequencesEndWithThem) {
  Small const small;
  for (double const temperature : {0.0, 1.0})
    for (int const rows : {0, 1}) {
      SCOPED_TRACE(std::to_string(temperature) + ", rows " + std::to_string(rows));
      Options options;
      options.batch = 3, options.capacity = 64, options.steps = StepBy::persistent;
      options.prompt_rows = rows;
      options.sampling = {temperature, 0, 1, 9};
      auto without = small.decoder(options);
      ASSERT_OK(without);
      ASSERT_OK(without->prefill(small.stream, k_prompts));
      ASSERT_OK(without->decode(small.stream, 30));
      auto const all = without->tokens();
      ASSERT_OK(all);
      std::size_t shorter = 0;
      for (std::size_t i = 0; i < 3; ++i)
        for (std::size_t const behind : {0u, 1u, 11u}) {
          // One that this sequence generates, one that prompts have, and one that nobody need find.
          options.stop_tokens = {(*all)[i][k_prompts[i].size() + behind], 9, 511};
          auto decoder = without->another(options, small.stream);
          ASSERT_OK(decoder);
          auto const expected = stopped(*all, options.stop_tokens);
          for (auto const& one : expected) shorter += one.size() < (*all)[i].size() ? 1 : 0;
          for (int round = 0; round < 2; ++round) {
            ASSERT_OK(decoder->prefill(small.stream, k_prompts));
            ASSERT_OK(decoder->decode(small.stream, round == 0 ? 30 : 13));
            if (round == 1) ASSERT_OK(decoder->decode(small.stream, 17));
            auto const tokens = decoder->tokens();
            ASSERT_OK(tokens);
            ASSERT_EQ(*tokens, expected) << "sequence " << i << ", " << behind << " behind its prompt";
            auto const ended = decoder->ended();
            ASSERT_OK(ended);
            for (std::size_t one = 0; one < expected.size(); ++one) {
              auto const& stops = options.stop_tokens;
              bool const stopped = expected[one].size() > k_prompts[one].size() &&
                                   std::find(stops.begin(), stops.end(), expected[one].back()) != stops.end();
              ASSERT_EQ((*ended)[one], stopped) << "sequence " << one;
            }
          }
        }
      EXPECT_GT(shorter, 8u);
    }
}

TEST(DecodeSampling, TokensOfLogitsThatAreNoNumbersAreRefused) {
  Small small;
  small.weights.head[300 * at(small.model.hidden)] = k_nan;
  WeightsOnDevice const with_nan(small.weights);
  for (double const temperature : {0.0, 1.0}) {
    Options options;
    options.capacity = 64;
    options.sampling = {temperature, 0, 1, 9};
    auto decoder = Decoder::make(small.model, with_nan.weights, options, small.stream);
    ASSERT_OK(decoder);
    ASSERT_OK(decoder->prefill(small.stream, {{5, 17, 30}}));
    ASSERT_OK(decoder->decode(small.stream, 3));
    auto const tokens = decoder->tokens();
    ASSERT_FALSE(tokens);
    EXPECT_EQ(tokens.error().front().code, "E0566");
    EXPECT_NE(to_text(tokens.error()).find("the largest logit of sequence 0 behind 3 tokens"),
              std::string::npos)
        << to_text(tokens.error());
  }
}
TEST(DecodeSampling, Refusals) {
  Small const small;
  auto const refused = [&](Options const& options, std::string const& words) {
    auto const outcome = small.decoder(options);
    ASSERT_FALSE(outcome) << words;
    EXPECT_EQ(outcome.error().front().code, "E0566");
    EXPECT_NE(to_text(outcome.error()).find(words), std::string::npos) << to_text(outcome.error());
  };
  Options options;
  options.sampling.temperature = -1;
  refused(options, "a temperature of -1");
  options.sampling = {1, 0, 2, 0};
  refused(options, "a probability of 2");
  options.sampling = {};
  options.stop_tokens = {3, 512};
  refused(options, "token 512 of a vocabulary of 512");
}

}  // namespace
}  // namespace tessera::decode
