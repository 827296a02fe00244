// SPDX-License-Identifier: Apache-2.0
// Passes over prompts, with the simplest attention, and whole small decoders that read prompts by passes.
#include "kernels/decode/prompt_pass.hpp"

#include "decode_gpu/plain_attention.hpp"
#include "decode_gpu/setting.hpp"

namespace tessera::decode {
namespace {

using reference::Numbers;
using reference::Precision;

std::vector<int> prompt_of(int length, int seed = 0) {
  std::vector<int> result;
  for (int i = 0; i < length; ++i) result.push_back((31 * seed + 101 * i + i * i + 7) % 512);
  return result;
}

struct PassSetting {
  Model model = reference::small_model();
  std::vector<std::vector<int>> prompts = {prompt_of(100)};
  int rows = 128;
  int first = 0;  ///< tokens that are read by a call of their own
  int page = 0;
  std::shared_ptr<struct Behind> behind = {};  ///< made where it is not there
};

/// Logits behind each prompt, exact and rounded: the host takes long, so settings that differ in the pass
/// alone share them.
struct Behind {
  std::vector<Numbers> exact, rounded;
};
Behind behind(reference::Weights const& weights, std::vector<std::vector<int>> const& prompts, int capacity) {
  Behind result;
  for (auto const& prompt : prompts) {
    reference::Sequence exact(weights, Precision::fp32, capacity),
        rounding(weights, Precision::bf16, capacity);
    result.exact.emplace_back(), result.rounded.emplace_back();
    for (int const token : prompt)
      result.exact.back() = exact.step(token), result.rounded.back() = rounding.step(token);
  }
  return result;
}

/// A pass with memory of its own, and nothing else of a decoder.
class Pass {
 public:
  explicit Pass(PassSetting const& setting)
      : s(setting),
        weights(s.model, 3),
        on_device(weights),
        batch(static_cast<int>(s.prompts.size())),
        capacity(most_tokens() + 3),
        paging(batch, capacity, s.page),
        ids(times(batch, capacity)),
        cached(times(batch, 1)),
        x(times(batch, s.model.hidden)),
        turns(times(capacity, s.model.head_size / 2)),
        wrong(times(batch, 1)) {}

  void make() {
    auto packed = pack_weights(s.model, on_device.weights, nullptr);
    ASSERT_OK(packed);
    std::vector<int> all(ids.size(), -1);
    for (std::size_t i = 0; i < s.prompts.size(); ++i)
      std::copy(s.prompts[i].begin(), s.prompts[i].end(),
                all.begin() + static_cast<std::ptrdiff_t>(i) * capacity);
    ids.upload(all);
    turns.upload(s.model.learned_positions > 0
                     ? std::vector<Turn>(turns.size())
                     : rotation_table(s.model.rotation, s.model.head_size, capacity));
    Options options;
    options.batch = batch, options.capacity = capacity;
    options.prompt_rows = s.rows;
    options.paged = paging.paged;
    Pieces none;
    pass_places(none, s.model, options);
    memory = std::make_unique<gpu::DeviceBuffer<unsigned char>>(none.used(), 0xff);  // no numbers
    Pieces pieces(memory->get());
    auto const own = pass_places(pieces, s.model, options);
    PassSurroundings around;
    around.cache =
        s.page > 0
            ? CacheShape{s.model.layers, paging.paged.pages, s.model.kv_heads, s.page, s.model.head_size}
            : CacheShape{s.model.layers, batch, s.model.kv_heads, capacity, s.model.head_size};
    if (s.page > 0)
      around.pages = {paging.paged.table, wrong.get(), pages_of(capacity, s.page), s.page,
                      paging.paged.pages};
    for (auto* const of : {&keys, &values})
      *of = std::make_unique<gpu::DeviceBuffer<unsigned short>>(around.cache.elements());
    around.keys = keys->get(), around.values = values->get();
    around.turns = turns.get();
    around.end.cached = cached.get(), around.end.ids = ids.get(), around.end.capacity = capacity;
    around.end.embedding = on_device.weights.embedding;
    around.end.positions = packed->positions, around.end.means = packed->means;
    around.end.x = x.get(), around.end.hidden = s.model.hidden, around.end.sequences = batch;
    shape = around.cache;
    auto made = PromptPass::make(s.model, *packed, options, own, around, plain_attention, nullptr);
    ASSERT_OK(made);
    pass = std::move(*made);
  }

  /// Reads all prompts, and holds what the head would read, and the cache, to what they should be.
  void check() {
    std::vector<Positions> some, rest;
    for (auto const& prompt : s.prompts) {
      int const all = static_cast<int>(prompt.size()), first = std::min(s.first, all - 1);
      some.push_back({0, first}), rest.push_back({first, all});
    }
    if (s.behind == nullptr) s.behind = std::make_shared<Behind>(behind(weights, s.prompts, capacity));
    ASSERT_OK(pass->read(nullptr, some, false));
    ASSERT_OK(pass->read(nullptr, rest, true));
    auto const found = x.download();
    auto const at = cached.download();
    double most = 0, usual = 0;
    for (std::size_t i = 0; i < s.prompts.size(); ++i) {
      EXPECT_EQ(at[i], static_cast<int>(s.prompts[i].size()) - 1);
      auto const &expected = s.behind->exact[i], &as_bf16 = s.behind->rounded[i];
      Numbers row;
      for (int d = 0; d < s.model.hidden; ++d)
        row.push_back(reference::from_bf16(
            found[i * static_cast<std::size_t>(s.model.hidden) + static_cast<std::size_t>(d)]));
      auto const normed = weights.norm_bias.empty()
                              ? reference::norm(row, weights.norm, s.model.norm_epsilon, Precision::fp32)
                              : reference::layer_norm(row, weights.norm, weights.norm_bias,
                                                      s.model.norm_epsilon, Precision::fp32);
      double const error =
          reference::relative_error(reference::product(weights.head_matrix(), normed), expected);
      double const bf16 = reference::relative_error(as_bf16, expected);
      ASSERT_LE(error, 2 * bf16 + 2e-3) << "sequence " << i << ", bf16 is off by " << bf16;
      most = std::max(most, error), usual = std::max(usual, bf16);
    }
    std::printf("  off by %.2e at most, bf16 by %.2e\n", most, usual);
    if (s.page == 0) check_behind();
  }

  std::shared_ptr<Behind> behind_prompts() const { return s.behind; }

 private:
  int most_tokens() const {
    std::size_t most = 0;
    for (auto const& prompt : s.prompts) most = std::max(most, prompt.size());
    return static_cast<int>(most);
  }
  /// Nothing of the cache is written behind a prompt, and something at its last token.
  void check_behind() const {
    auto const of_keys = keys->download(), of_values = values->download();
    for (int l = 0; l < s.model.layers; ++l)
      for (int i = 0; i < batch; ++i)
        for (int h = 0; h < s.model.kv_heads; ++h) {
          int const end = static_cast<int>(s.prompts[static_cast<std::size_t>(i)].size());
          auto const begin = shape.row(l, i, h, end);
          for (auto k = begin; k < shape.row(l, i, h, capacity); ++k)
            ASSERT_TRUE(of_keys[k] == 0 && of_values[k] == 0)
                << "layer " << l << ", sequence " << i << ", head " << h << ": element " << k - begin
                << " behind the prompt was written";
          bool written = false;
          for (auto k = shape.row(l, i, h, end - 1); k < begin; ++k)
            written = written || (of_keys[k] != 0 && of_values[k] != 0);
          ASSERT_TRUE(written) << "layer " << l << ", sequence " << i << ", head " << h;
        }
  }

  PassSetting s;
  reference::Weights weights;
  WeightsOnDevice on_device;
  int batch, capacity;
  Paging paging;
  gpu::DeviceBuffer<int> ids, cached;
  gpu::DeviceBuffer<unsigned short> x;
  gpu::DeviceBuffer<Turn> turns;
  gpu::DeviceBuffer<int> wrong;
  std::unique_ptr<gpu::DeviceBuffer<unsigned char>> memory;
  std::unique_ptr<gpu::DeviceBuffer<unsigned short>> keys, values;
  CacheShape shape;
  std::optional<PromptPass> pass;
};

/// What is behind the prompts is left in the setting.
void check(PassSetting& s) {
  Pass pass(s);
  ASSERT_NO_FATAL_FAILURE(pass.make());
  pass.check();
  s.behind = pass.behind_prompts();
}

TEST(DecodePass, LengthsAroundItsRows) {
  for (int const length : {1, 2, 63, 64, 65, 127, 128, 129, 300}) {
    SCOPED_TRACE(std::to_string(length) + " tokens");
    PassSetting s;
    s.prompts = {prompt_of(length)};
    check(s);
  }
}
TEST(DecodePass, HeadsAndGroups) {
  for (int const head_size : {64, 96, 128})
    for (int const group : {1, 3, 8}) {
      SCOPED_TRACE(std::to_string(group) + " queries, heads of " + std::to_string(head_size));
      PassSetting s;
      s.model = reference::small_model(head_size, 2, group);
      check(s);
    }
}
TEST(DecodePass, BiasesNormedHeadsAndGPT2) {
  using reference::small_model;
  auto both = reference::with_norms(reference::with_biases(small_model(128, 2, 3)));
  both.out_biases = true;
  for (auto const& model : {reference::with_biases(small_model(64, 2, 7)), both, reference::small_gpt2()}) {
    SCOPED_TRACE(model.name + std::to_string(model.heads) + " heads of " + std::to_string(model.head_size));
    PassSetting s;
    s.model = model;
    s.prompts = {prompt_of(100), prompt_of(37, 1)};
    check(s);
  }
}
TEST(DecodePass, Windows) {
  for (int const window : {1, 20, 128}) {
    SCOPED_TRACE("a window of " + std::to_string(window));
    PassSetting s;
    s.model = reference::with_window(reference::small_model(128, 2, 4), window, 1);
    s.prompts = {prompt_of(200), prompt_of(37, 1)};
    check(s);
  }
}
TEST(DecodePass, UnequalSequences) {
  for (int const batch : {2, 9, 64}) {
    SCOPED_TRACE(std::to_string(batch) + " sequences");
    PassSetting s;
    s.prompts.clear();
    for (int i = 0; i < batch; ++i) s.prompts.push_back(prompt_of(1 + i * 37 % 50, i));
    check(s);
  }
}
/// Of full passes, by algorithms that are timed.
TEST(DecodePass, TimedProducts) {
  PassSetting s;
  s.rows = k_least_timed_rows;
  s.prompts.clear();
  for (int i = 0; i < 64; ++i) s.prompts.push_back(prompt_of(k_least_timed_rows / 64, i));
  check(s);
  s.model = reference::small_gpt2();
  s.behind = {};
  check(s);
}
TEST(DecodePass, BehindACache) {
  PassSetting s;
  s.prompts = {prompt_of(270), prompt_of(1), prompt_of(77, 1)};
  for (int const page : {0, 16, 80})
    for (int const first : {1, 64, 130}) {
      SCOPED_TRACE("pages of " + std::to_string(page) + ", behind " + std::to_string(first));
      s.page = page, s.first = first;
      check(s);
    }
}

/// Whole decoders, with the attention that they have.
TEST(DecodePassPrompts, LengthsAndChunks) {
  for (int const length : {1, 2, 64, 65, 130, 300}) {
    SCOPED_TRACE(std::to_string(length) + " tokens");
    Setting s;
    s.prompts = {prompt_of(length)};
    s.prompt_rows = 128, s.steps = 6;
    check(s);
  }
}
TEST(DecodePassPrompts, HeadsAndGroups) {
  for (int const head_size : {64, 96, 128})
    for (int const group : {1, 3, 4, 8}) {
      SCOPED_TRACE(std::to_string(group) + " queries, heads of " + std::to_string(head_size));
      Setting s;
      s.model = reference::small_model(head_size, 2, group);
      s.prompts = {prompt_of(140), prompt_of(33, 1)};
      s.prompt_rows = 128, s.steps = 2;
      check(s);
    }
}
TEST(DecodePassPrompts, WhatElseModelsHave) {
  using namespace reference;
  for (auto const& model : {with_biases(small_model(64, 2, 7)), with_norms(small_model(128, 2, 2)),
                            with_window(small_model(128, 2, 4), 70, 1), small_gpt2(), small_phi3()}) {
    SCOPED_TRACE(model.name + std::to_string(model.heads) + " heads of " + std::to_string(model.head_size));
    Setting s;
    s.model = model;
    s.prompts = {prompt_of(140), prompt_of(37, 1), prompt_of(1)};
    s.prompt_rows = 128, s.steps = 3;
    check(s);
  }
}
TEST(DecodePassPrompts, PagesAndManySequences) {
  for (int const page : {0, 16}) {
    SCOPED_TRACE("pages of " + std::to_string(page));
    Setting s;
    s.prompts.clear();
    for (int i = 0; i < 33; ++i) s.prompts.push_back(prompt_of(1 + i * 37 % 60, i));
    s.page = page;
    s.prompt_rows = 256, s.steps = 3;
    check(s);
  }
}

}  // namespace
}  // namespace tessera::decode
