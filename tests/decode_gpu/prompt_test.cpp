// SPDX-License-Identifier: Apache-2.0
// Prompts that are read 64 tokens at once: whole small decoders beside the plain one, and beside themselves
// token by token. Passes, which read more, are in prompt_pass_test.cpp, and in the last two.
#include "decode_gpu/setting.hpp"

namespace tessera::decode {
namespace {

using reference::Numbers;

std::vector<int> prompt_of(int length, int seed = 0) {
  std::vector<int> result;
  for (int i = 0; i < length; ++i) result.push_back((31 * seed + 101 * i + i * i + 7) % 512);
  return result;
}

TEST(DecodePrompts, LengthsAroundAStep) {
  for (int const length : {1, 2, 3, 16, 17, 33, 63, 64, 65, 66, 129, 130}) {
    SCOPED_TRACE(std::to_string(length) + " tokens");
    Setting s;
    s.prompts = {prompt_of(length)};
    s.prompt_rows = 64, s.steps = 4;
    check(s);
  }
}
TEST(DecodePrompts, RowsOfAStep) {
  for (int const rows : {2, 3, 15, 33, 64}) {
    SCOPED_TRACE(std::to_string(rows) + " rows");
    Setting s;
    s.prompts = {prompt_of(70)};
    s.prompt_rows = rows, s.steps = 4;
    check(s);
  }
}
TEST(DecodePrompts, HeadsAndGroups) {
  for (int const head_size : {64, 128})
    for (int const group : {1, 3, 4, 8}) {
      SCOPED_TRACE(std::to_string(group) + " queries, heads of " + std::to_string(head_size));
      Setting s;
      s.model = reference::small_model(head_size, 2, group);
      s.prompts = {prompt_of(100)};
      s.prompt_rows = 64, s.steps = 3;
      check(s);
    }
}
TEST(DecodePrompts, BiasesAndNormedHeads) {
  using reference::small_model;
  auto both = reference::with_norms(reference::with_biases(small_model(128, 2, 3)));
  both.out_biases = true;
  for (auto const& model :
       {reference::with_biases(small_model(64, 2, 7)), both, reference::with_norms(small_model(128, 2, 2)),
        reference::with_norms(small_model(64, 1, 8))}) {
    SCOPED_TRACE(std::to_string(model.heads) + " heads of " + std::to_string(model.head_size) +
                 (model.qkv_biases ? ", biases" : "") + (model.norms_heads ? ", norms" : ""));
    Setting s;
    s.model = model;
    s.prompts = {prompt_of(100), prompt_of(37, 1)};
    s.prompt_rows = 64, s.steps = 3;
    check(s);
  }
}
TEST(DecodePrompts, Windows) {
  for (int const window : {1, 20, 70, 128}) {
    SCOPED_TRACE("a window of " + std::to_string(window));
    Setting s;
    s.model = reference::with_window(reference::small_model(128, 2, 4), window);
    s.prompts = {prompt_of(200), prompt_of(37, 1)};
    s.prompt_rows = 64, s.steps = 3;
    check(s);
    s.model.window_from = 1;
    check(s);
  }
}
TEST(DecodePrompts, UnequalSequences) {
  for (int const batch : {2, 5, 9, 64}) {
    SCOPED_TRACE(std::to_string(batch) + " sequences");
    Setting s;
    s.prompts.clear();
    for (int i = 0; i < batch; ++i) s.prompts.push_back(prompt_of(1 + i * 37 % 90, i));
    s.prompt_rows = 64, s.steps = 3;
    check(s);
  }
}
TEST(DecodePrompts, PagesAndGPT2) {
  for (int const page : {0, 16, 80}) {
    SCOPED_TRACE("pages of " + std::to_string(page));
    Setting s;
    s.model = page == 80 ? reference::small_model(128, 2, 4) : reference::small_gpt2();
    s.prompts = {prompt_of(200), prompt_of(1), prompt_of(77, 1)};
    s.page = page;
    s.prompt_rows = 64, s.steps = 20;
    check(s);
  }
}
TEST(DecodePrompts, HeadsOf96) {
  Setting s;
  s.model = reference::small_phi3();
  s.prompts = {prompt_of(130), prompt_of(37, 1)};
  s.prompt_rows = 64, s.steps = 3;
  check(s);
  s.model = reference::with_biases(reference::with_window(reference::small_model(96, 4, 1), 50));
  check(s);
}
/// Several tiles of attention and of products to a block, and positions that are cut into parts and are not.
TEST(DecodePrompts, FewBlocks) {
  for (int const blocks : {3, 7, 40}) {
    SCOPED_TRACE(std::to_string(blocks) + " blocks");
    Setting s;
    s.prompts = {prompt_of(300), prompt_of(77, 1)};
    s.prompt_rows = 64, s.steps = 3;
    s.cut.blocks = blocks;
    check(s);
  }
}

struct Streamed {
  Streamed() { gpu::ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)); }
  ~Streamed() { cudaStreamDestroy(stream); }
  cudaStream_t stream = nullptr;
};

Numbers cached(Decoder const& decoder, void const* from) {
  std::vector<unsigned short> bits(decoder.cache().elements());
  gpu::ok(cudaMemcpy(bits.data(), from, 2 * bits.size(), cudaMemcpyDeviceToHost));
  Numbers result;
  for (auto const one : bits) result.push_back(reference::from_bf16(one));
  return result;
}

/// The cache holds what it holds token by token, but for rounding, and nothing behind the prompt; the same
/// tokens follow as long as there is no near tie; and the same prompt gives the same bits. Passes round in
/// other places than steps do, so they are apart by as much as both are from what is exact.
void check_leaves(int rows) {
  auto const model = reference::small_model(64, 2, 4);
  reference::Weights const weights(model, 12);
  WeightsOnDevice const on_device(weights);
  Options options;
  options.batch = 2, options.capacity = 250;
  options.keep_logits = true;
  options.prompt_rows = 1;
  Streamed const own;
  auto one_by_one = Decoder::make(model, on_device.weights, options, own.stream);
  ASSERT_OK(one_by_one);
  options.prompt_rows = rows;
  double const apart = rows == 64 ? 1e-2 : 2e-2;
  auto at_once = one_by_one->another(options, own.stream);
  ASSERT_OK(at_once);
  std::vector<std::vector<int>> const prompts = {prompt_of(200), prompt_of(200, 3)};
  ASSERT_OK(one_by_one->prefill(own.stream, prompts));
  ASSERT_OK(one_by_one->finish());
  auto const logits = logits_of(*one_by_one, model, 2);
  Numbers before;
  for (int round = 0; round < 3; ++round) {
    ASSERT_OK(at_once->prefill(own.stream, prompts));
    ASSERT_OK(at_once->finish());
    auto const keys = cached(*at_once, at_once->keys()), values = cached(*at_once, at_once->values());
    EXPECT_LT(reference::relative_error(keys, cached(*one_by_one, one_by_one->keys())), apart);
    EXPECT_LT(reference::relative_error(values, cached(*one_by_one, one_by_one->values())), apart);
    auto const& shape = at_once->cache();
    std::size_t behind = 0;
    for (int l = 0; l < model.layers; ++l)
      for (int s = 0; s < 2; ++s)
        for (int h = 0; h < model.kv_heads; ++h)
          for (auto at = shape.row(l, s, h, 200); at < shape.row(l, s, h, shape.capacity); ++at)
            behind += keys[at] != 0 || values[at] != 0 ? 1 : 0;
    EXPECT_EQ(behind, 0u) << "elements behind the prompts were written";
    auto found = logits_of(*at_once, model, 2);
    for (std::size_t i = 0; i < 2; ++i) EXPECT_LT(reference::relative_error(found[i], logits[i]), 2 * apart);
    if (round == 0) before = found[1];
    EXPECT_EQ(found[1], before);
  }
  ASSERT_OK(one_by_one->decode(own.stream, 40));
  ASSERT_OK(at_once->decode(own.stream, 40));
  auto const expected = one_by_one->tokens(), found = at_once->tokens();
  ASSERT_OK(expected);
  ASSERT_OK(found);
  for (std::size_t i = 0; i < 2; ++i) {
    ASSERT_EQ((*found)[i].size(), 241u);
    ASSERT_EQ((*expected)[i].size(), 241u);
    reference::Sequence exact(weights, reference::Precision::fp32, options.capacity);
    for (std::size_t p = 0; p < 241; ++p) {
      if ((*found)[i][p] != (*expected)[i][p]) {
        Numbers last;
        for (std::size_t q = 0; q < p; ++q) last = exact.step((*expected)[i][q]);
        auto const gap = std::fabs(last[static_cast<std::size_t>((*found)[i][p])] -
                                   last[static_cast<std::size_t>((*expected)[i][p])]);
        EXPECT_LT(gap, 8 * apart) << "no near tie: token " << p << " of sequence " << i;
        break;
      }
    }
  }
}
TEST(DecodePrompts, LeaveWhatTokenByTokenLeaves) {
  for (int const rows : {0, 64, 128}) {
    SCOPED_TRACE(std::to_string(rows) + " rows");
    check_leaves(rows);
  }
}

/// Behind what stands in the cache, some of it read token by token and some of it not; a sequence that has
/// nothing left to read goes on by one token.
void check_going_on(int rows) {
  auto const model = reference::small_model();
  reference::Weights const weights(model, 4);
  WeightsOnDevice const on_device(weights);
  Options options;
  options.batch = 2, options.capacity = 200;
  options.keep_logits = true;
  options.prompt_rows = rows;
  Streamed const own;
  auto decoder = Decoder::make(model, on_device.weights, options, own.stream);
  ASSERT_OK(decoder);
  auto const prompt = prompt_of(150), other = prompt_of(5, 1);
  ASSERT_OK(decoder->prefill(own.stream, {prompt, other}));
  ASSERT_OK(decoder->finish());
  auto const expected = logits_of(*decoder, model, 2)[0];
  for (int const behind : {149, 148, 100, 64, 17, 1}) {
    for (int const by_one : {0, 1, 2}) {
      SCOPED_TRACE(std::to_string(behind) + " cached, " + std::to_string(by_one) + " token by token");
      std::vector<int> const rest(prompt.begin() + behind, prompt.end());
      ASSERT_OK(decoder->begin(own.stream, {{rest, behind}, {other, 0}}));
      ASSERT_OK(decoder->decode(own.stream, by_one));
      ASSERT_OK(decoder->prefill(own.stream));
      auto const tokens = decoder->tokens();
      ASSERT_OK(tokens);
      // What has read its prompt before goes on by a token, as the others read the last one of theirs.
      auto const before = static_cast<std::size_t>(by_one);
      auto const read = before < rest.size() ? rest.size() : before + 1;
      EXPECT_EQ((*tokens)[0].size(), read + 1);
      EXPECT_EQ((*tokens)[1].size(), other.size() + 1);
      if (read == rest.size()) {
        EXPECT_LT(reference::relative_error(logits_of(*decoder, model, 2)[0], expected), 2e-2);
      }
    }
  }
  // Nothing is left to read: nothing is done.
  ASSERT_OK(decoder->prefill(own.stream));
  auto const tokens = decoder->tokens();
  ASSERT_OK(tokens);
  EXPECT_EQ((*tokens)[1].size(), other.size() + 1);
}
TEST(DecodePrompts, GoOnBehindACache) {
  for (int const rows : {0, 64, 128}) {
    SCOPED_TRACE(std::to_string(rows) + " rows");
    check_going_on(rows);
  }
}

}  // namespace
}  // namespace tessera::decode
