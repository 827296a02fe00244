// SPDX-License-Identifier: Apache-2.0
// Attention of runs of new tokens on a GPU, alone: against plain arithmetic, with no numbers behind each
// sequence.
#include <gmock/gmock.h>

#include <algorithm>

#include "decode_gpu/attention_problem.hpp"
#include "gpu/launches.hpp"

namespace tessera::decode {
namespace {

using gpu::DeviceBuffer;
using reference::from_bf16;
using reference::Numbers;
using reference::Precision;
using reference::to_bf16;

struct Shape {
  std::vector<Positions> unread;  ///< of each sequence, one step
  int kv_heads = 2, group = 4, head_size = 64, items = 8, least = 16, layers = 2, capacity = 400;
  bool norms = false;   ///< of heads
  int window = 0;       ///< keys that a token sees; 0: all
  bool extras = false;  ///< by the kernel for them, whether or not there are norms
  int page = 0;         ///< positions of a page; 0: no pages

  int batch() const { return static_cast<int>(unread.size()); }
  int row() const { return kv_heads * (group + 2) * head_size; }
  CacheShape cache() const { return {layers, batch(), kv_heads, capacity, head_size}; }
  bool takes_extras() const { return norms || extras || window > 0 || page > 0; }
  std::string text() const {
    auto result = heads_text(cache(), group) + std::to_string(items) + " items, positions";
    for (auto const& one : unread)
      result += " " + std::to_string(one.begin) + " to " + std::to_string(one.end);
    return result + (norms ? ", normed" : "") +
           (window > 0 ? ", a window of " + std::to_string(window) : "") +
           (page > 0 ? ", pages of " + std::to_string(page) : "");
  }
  /// The first position that the token at `position` sees.
  int first(int position) const { return window > 0 ? std::max(position + 1 - window, 0) : 0; }
};

constexpr double k_epsilon = 1e-2;  // large enough to matter

class Problem {
 public:
  Problem(Shape const& of, unsigned seed)
      : s(of), places(of.cache(), of.page), steps(prompt_steps(of.unread, k_most_prompt_rows)) {
    RandomBits random(seed);
    turns = rotation_table(reference::small_model().rotation, s.head_size, s.capacity);
    qkv.assign(static_cast<std::size_t>(k_most_prompt_rows * s.row()), k_poison);
    for (auto const& run : steps.front())
      for (int i = run.row * s.row(); i < (run.row + run.tokens) * s.row(); ++i) qkv[at(i)] = random.number();
    for (int i = 0; i < s.layers * 2 * s.head_size && s.norms; ++i) gains.push_back(random.number());
    // Blocks before all windows are no numbers.
    auto const first = [&](int sequence) { return s.first(s.unread[at(sequence)].begin) / 16 * 16; };
    auto const cached = [&](int sequence) { return s.unread[at(sequence)].begin; };
    fill_cache(places, first, cached, random, false, keys, values);
  }

  /// Vector `i` of a row's key head: its queries, its key, its value; normed, if heads are, and turned unless
  /// it is the value.
  Numbers vector(int layer, PromptRun const& run, int token, int head, int i, Precision precision) const {
    int const first = (run.row + token) * s.row() + (head * (s.group + 2) + i) * s.head_size;
    auto one = numbers_of(qkv, at(first), at(s.head_size));
    if (i <= s.group)
      reference::norm_and_turn(one, gains_of(layer, i < s.group ? 0 : 1), k_epsilon,
                               turns.data() + (run.position + token) * s.head_size / 2, precision);
    return one;
  }

  /// Of the last layer. Rows that read nothing are zeros.
  Numbers expected(Precision precision) const {
    Numbers result(at(k_most_prompt_rows * s.kv_heads * s.group * s.head_size));
    int const layer = s.layers - 1;
    for (auto const& run : steps.front())
      for (int h = 0; h < s.kv_heads; ++h) {
        Numbers all_keys, all_values;
        for (int p = 0; p < run.position; ++p)
          for (int d = 0; d < s.head_size; ++d) {
            auto const place = places.at(layer, run.sequence, h, p, d);
            all_keys.push_back(from_bf16(keys[place])), all_values.push_back(from_bf16(values[place]));
          }
        for (int t = 0; t < run.tokens; ++t) {
          auto const key = vector(layer, run, t, h, s.group, Precision::bf16);
          auto const value = vector(layer, run, t, h, s.group + 1, Precision::bf16);
          all_keys.insert(all_keys.end(), key.begin(), key.end());
          all_values.insert(all_values.end(), value.begin(), value.end());
          // Of the new token's own window.
          auto const before = (s.first(run.position + t)) * s.head_size;
          Numbers const window_keys(all_keys.begin() + before, all_keys.end());
          Numbers const window_values(all_values.begin() + before, all_values.end());
          for (int g = 0; g < s.group; ++g) {
            auto const query = vector(layer, run, t, h, g, Precision::bf16);
            auto const one =
                reference::attention(query.data(), window_keys, window_values, s.head_size, precision);
            std::copy(one.begin(), one.end(),
                      result.begin() + (((run.row + t) * s.kv_heads + h) * s.group + g) * s.head_size);
          }
        }
      }
    return result;
  }
  /// Keys and values of the run are stored, of each layer; nothing else changes.
  void check_cache(Bits const& found_keys, Bits const& found_values) const {
    auto expected_values = values;
    std::vector<bool> is_new(keys.size());
    std::size_t wrong = 0, different = 0;
    for (auto const& run : steps.front())
      for (int l = 0; l < s.layers; ++l)
        for (int h = 0; h < s.kv_heads; ++h)
          for (int t = 0; t < run.tokens; ++t) {
            auto const key = vector(l, run, t, h, s.group, Precision::fp32);
            auto const value = vector(l, run, t, h, s.group + 1, Precision::fp32);
            for (int d = 0; d < s.head_size; ++d) {
              auto const place = places.at(l, run.sequence, h, run.position + t, d);
              is_new[place] = true;
              expected_values[place] = to_bf16(value[at(d)]);
              wrong += is_stored_key(found_keys[place], key[at(d)]) ? 0 : 1;
            }
          }
    for (std::size_t i = 0; i < keys.size(); ++i) different += !is_new[i] && found_keys[i] != keys[i] ? 1 : 0;
    EXPECT_EQ(wrong, 0u) << "elements of new keys";
    EXPECT_EQ(different, 0u) << "elements of keys that nobody may write";
    EXPECT_TRUE(found_values == expected_values) << "values";
  }

  Shape s;
  Places places;
  std::vector<PromptStep> steps;
  std::vector<Turn> turns;
  Bits qkv, keys, values, gains;

 private:
  /// Of queries (0) or keys (1).
  Numbers gains_of(int layer, int which) const {
    return s.norms ? numbers_of(gains, at((2 * layer + which) * s.head_size), at(s.head_size)) : Numbers{};
  }
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
};

void check(Shape const& s, unsigned seed) {
  SCOPED_TRACE(s.text());
  Problem const problem(s, seed);
  ASSERT_EQ(problem.steps.size(), 1u) << "more than a step";
  auto const machine = with_device();
  ASSERT_OK(machine);
  auto const table = prompt_table(problem.steps.front(), s.group, s.items, s.least, s.window);
  int const tiles = s.items * s.kv_heads;
  DeviceBuffer<unsigned short> qkv(problem.qkv.size()), keys(problem.keys.size()),
      values(problem.keys.size());
  auto const results = static_cast<std::size_t>(k_most_prompt_rows * s.kv_heads * s.group * s.head_size);
  DeviceBuffer<unsigned short> output(results, 0);
  qkv.upload(problem.qkv), keys.upload(problem.keys), values.upload(problem.values);
  DeviceBuffer<Turn> turns(problem.turns.size());
  turns.upload(problem.turns);
  DeviceBuffer<PromptItem> items(k_most_prompt_items);
  items.upload({std::begin(table.items), std::end(table.items)});
  DeviceBuffer<float> parts(prompt_parts(tiles, s.head_size), 0xff);
  DeviceBuffer<unsigned> arrived(static_cast<std::size_t>(tiles), 0);

  RoleOptions options;
  options.chain.deadline_seconds = gpu::patient(options.chain.deadline_seconds);
  options.rings = {4, 16 * 1024, 2, 0, 4, 1024, prompt_scratch_bytes(s.head_size)};
  DeviceBuffer<unsigned short> gains(std::max<std::size_t>(problem.gains.size(), 1));
  if (s.norms) gains.upload(problem.gains);
  PromptArguments a;
  a.qkv = qkv.get(), a.output = output.get();
  a.keys = keys.get(), a.values = values.get();
  PagesOnDevice const pages(problem.places);
  a.layer_elements = static_cast<long long>(problem.places.shape().row(1, 0, 0, 0));
  a.pages = pages.pages;
  a.turns = turns.get(), a.items = items.get();
  a.window = s.window;
  if (s.norms) a.head_gains = gains.get(), a.norm_epsilon = static_cast<float>(k_epsilon);
  a.parts = parts.get(), a.arrived = arrived.get();
  a.scale = score_scale(s.head_size);
  a.layers = s.layers, a.kv_heads = s.kv_heads, a.group = s.group;
  a.capacity = s.capacity;
  a.slot_positions = positions_of_slot(options.rings.slot_bytes, s.head_size);
  a.tiles = tiles;
  DeviceBuffer<PromptArguments> arguments(1);
  arguments.upload({a});
  auto chain =
      prompt_attention_alone(*machine, tiles, options, {s.head_size, s.takes_extras()}, arguments.get());
  ASSERT_OK(chain);
  expect_twice(*chain, s.layers, output, 0, problem.expected(Precision::fp32),
               problem.expected(Precision::bf16));
  if (testing::Test::HasFatalFailure()) return;
  problem.check_cache(keys.download(), values.download());
  EXPECT_THAT(pages.wrong(), testing::Each(0));
}

TEST(DecodePromptAttention, LengthsAndPasts) {
  for (int const tokens : {1, 2, 7, 15, 16, 17, 31, 32, 33, 63, 64})
    for (int const cached : {0, 1, 8, 15, 16, 17, 64, 130, 300}) check({{{cached, cached + tokens}}}, 7);
}
TEST(DecodePromptAttention, HeadsAndGroups) {
  for (int const head_size : {64, 128})
    for (int const group : {1, 2, 3, 4, 5, 6, 7, 8})
      for (int const kv_heads : {1, 8}) check({{{77, 77 + 50}}, kv_heads, group, head_size}, 11);
}
TEST(DecodePromptAttention, HeadsOf96) {
  for (int const group : {1, 3, 8})
    for (int const tokens : {1, 7, 16, 39})
      for (int const window : {0, 40})
        for (int const page : {0, 48}) {
          Shape s{{{0, tokens}, {77, 77 + 64 - tokens - 1}}, 2, group, 96, 24};
          s.window = window, s.page = page;
          check(s, 71);
        }
}
TEST(DecodePromptAttention, Pages) {
  for (int const head_size : {64, 128})
    for (int const page : {16, 48, 64, 256})
      for (int const tokens : {1, 17, 40}) {
        Shape s{{{0, tokens}, {77, 78}, {300, 300 + 40 - tokens + 1}}, 2, 3, head_size, 24};
        s.page = page;
        check(s, 61);
        s.window = 50, s.norms = true;
        check(s, 67);
      }
}
/// Of each layer with its own gains; 5 and 7 tokens leave some of a warp's lanes without a key.
TEST(DecodePromptAttention, NormedHeads) {
  for (int const head_size : {64, 128})
    for (int const group : {1, 2, 7, 8})
      for (int const tokens : {1, 5, 7, 39}) {
        Shape s{{{0, tokens}, {77, 77 + 64 - tokens - 1}}, 2, group, head_size, 24, 16, 3};
        s.norms = true;
        check(s, 37);
      }
}
TEST(DecodePromptAttention, Windows) {
  for (int const head_size : {64, 128})
    for (int const window : {1, 2, 16, 17, 33, 100, 500})
      for (int const items : {8, 24}) {
        Shape s{{{300, 330}, {0, 20}, {77, 90}}, 2, 7, head_size, items};
        s.window = window;
        check(s, 43);
      }
}
/// By the kernel for heads that may be normed.
TEST(DecodePromptAttention, HeadsThatMayBeNormedAndAreNot) {
  for (int const head_size : {64, 128}) {
    Shape s{{{77, 77 + 50}}, 2, 7, head_size};
    s.extras = true;
    check(s, 41);
  }
}
TEST(DecodePromptAttention, PartsOfThePast) {
  for (int const items : {2, 3, 5, 16, 40})
    for (int const least : {16, 64}) {
      check({{{300, 364}}, 2, 4, 64, items, least}, 13);
      check({{{211, 230}}, 2, 8, 128, items + 1, least}, 17);
    }
}
TEST(DecodePromptAttention, Sequences) {
  check({{{0, 5}, {300, 302}, {17, 30}, {1, 1}, {160, 190}}, 2, 4, 64, 12}, 19);
  std::vector<Positions> many;
  for (int i = 0; i < 64; ++i) many.push_back({i * 37 % 300, i * 37 % 300 + 1});
  check({many, 2, 4, 64, 64, 16, 1}, 23);
}
TEST(DecodePromptAttention, RandomShapes) {
  std::mt19937 random(5);
  auto const below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int i = 0; i < 60 && !testing::Test::HasFailure(); ++i) {
    Shape s;
    int left = k_most_prompt_rows;
    for (int b = 1 + below(6); b > 0; --b) {
      int const tokens = below(left + 1), cached = below(301);
      s.unread.push_back({cached, cached + tokens});
      left -= tokens;
    }
    if (left == k_most_prompt_rows) s.unread.push_back({5, 8});
    s.kv_heads = 1 + below(8), s.group = 1 + below(8);
    s.head_size = below(2) == 0 ? 64 : 128;
    s.items =
        std::min(most_prompt_pieces(s.group, k_most_prompt_rows, s.batch()) + below(20), k_most_prompt_items);
    s.layers = 1 + below(3);
    check(s, static_cast<unsigned>(i));
  }
}
/// Enough positions that a part is several slots and rings go round.
TEST(DecodePromptAttention, ManyPositions) {
  check({{{4000, 4064}}, 1, 4, 128, 3, 64, 1, 4096}, 29);
  check({{{3001, 3030}, {4062, 4096}}, 2, 2, 64, 5, 64, 2, 4096}, 31);
}

}  // namespace
}  // namespace tessera::decode
