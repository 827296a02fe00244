// SPDX-License-Identifier: Apache-2.0
// Attention over a cache on a GPU, alone: against plain arithmetic, with poison behind each sequence.
#include <gmock/gmock.h>

#include "decode_gpu/attention_problem.hpp"
#include "gpu/launches.hpp"

#include <algorithm>

namespace tessera::decode {
namespace {

using gpu::DeviceBuffer;
using reference::from_bf16;
using reference::Numbers;

struct Shape {
  std::vector<int> cached;  ///< of each sequence
  int kv_heads = 2, group = 4, head_size = 64, splits = 3, layers = 2, capacity = 320;
  bool no_queries = false;  ///< queries and keys are zero
  bool norms = false;       ///< of heads
  int window = 0;           ///< keys that a token sees; 0: all
  bool extras = false;      ///< by the kernel for them, whether or not there are norms
  int page = 0;             ///< positions of a page; 0: no pages

  int batch() const { return static_cast<int>(cached.size()); }
  int row() const { return kv_heads * (group + 2) * head_size; }
  CacheShape cache() const { return {layers, batch(), kv_heads, capacity, head_size}; }
  bool takes_extras() const { return norms || extras || window > 0 || page > 0; }
  std::string text() const {
    auto result = heads_text(cache(), group) + std::to_string(splits) + " parts, cached";
    for (int const one : cached) result += " " + std::to_string(one);
    return result + (norms ? ", normed" : "") +
           (window > 0 ? ", a window of " + std::to_string(window) : "") +
           (page > 0 ? ", pages of " + std::to_string(page) : "");
  }
  /// The first position that the new token of a sequence sees.
  int first(int sequence) const {
    return window > 0 ? std::max(cached[static_cast<std::size_t>(sequence)] + 1 - window, 0) : 0;
  }
};

constexpr double k_epsilon = 1e-2;  // large enough to matter

/// Inputs, and what should come out.
class Problem {
 public:
  Problem(Shape const& of, unsigned seed) : s(of), places(of.cache(), of.page) {
    RandomBits random(seed);
    auto const table = rotation_table(reference::small_model().rotation, s.head_size, s.capacity);
    turns_ = table;
    auto const numbers = [&](std::size_t count) {
      Bits result(count);
      for (auto& one : result) one = random.number();
      return result;
    };
    qkv = numbers(static_cast<std::size_t>(s.batch() * s.row()));
    if (s.norms) gains = numbers(static_cast<std::size_t>(s.layers * 2 * s.head_size));
    // Blocks before the window are no numbers.
    auto const first = [&](int sequence) { return s.first(sequence) / 16 * 16; };
    auto const cached = [&](int sequence) { return s.cached[static_cast<std::size_t>(sequence)]; };
    fill_cache(places, first, cached, random, s.no_queries, keys, values);
    if (s.no_queries)
      for (std::size_t i = 0; i < qkv.size(); ++i)
        if (static_cast<int>(i) / s.head_size % (s.group + 2) <= s.group) qkv[i] = 0;
  }

  /// What all iterations write last is the last layer's.
  Numbers expected(int layer, reference::Precision precision) const {
    Numbers result;
    for (int b = 0; b < s.batch(); ++b)
      for (int h = 0; h < s.kv_heads; ++h) {
        auto const vector = [&](int i) {
          auto const first = static_cast<std::size_t>(b * s.row() + (h * (s.group + 2) + i) * s.head_size);
          return numbers_of(qkv, first, static_cast<std::size_t>(s.head_size));
        };
        int const cached = s.cached[static_cast<std::size_t>(b)];
        auto const* const turns = turns_.data() + cached * s.head_size / 2;
        auto const rounded = reference::Precision::bf16;
        auto key = vector(s.group);
        auto const value = vector(s.group + 1);
        reference::norm_and_turn(key, gains_of(layer, 1), k_epsilon, turns, rounded);
        Numbers all_keys, all_values;
        for (int p = s.first(b); p <= cached; ++p)
          for (int d = 0; d < s.head_size; ++d) {
            auto const at = places.at(layer, b, h, p, d);
            auto const n = static_cast<std::size_t>(d);
            all_keys.push_back(p < cached ? from_bf16(keys[at]) : key[n]);
            all_values.push_back(p < cached ? from_bf16(values[at]) : value[n]);
          }
        for (int g = 0; g < s.group; ++g) {
          auto query = vector(g);
          reference::norm_and_turn(query, gains_of(layer, 0), k_epsilon, turns, rounded);
          auto const one = reference::attention(query.data(), all_keys, all_values, s.head_size, precision);
          result.insert(result.end(), one.begin(), one.end());
        }
      }
    return result;
  }
  /// The newest token's key and value are stored, of each layer; nothing else changes.
  void check_cache(Bits const& found_keys, Bits const& found_values) const {
    std::vector<bool> is_new(keys.size());
    std::size_t different = 0, wrong = 0;
    for (int l = 0; l < s.layers; ++l)
      for (int b = 0; b < s.batch(); ++b)
        for (int h = 0; h < s.kv_heads; ++h) {
          int const cached = s.cached[static_cast<std::size_t>(b)];
          auto const first =
              static_cast<std::size_t>(b * s.row() + (h * (s.group + 2) + s.group) * s.head_size);
          auto key = numbers_of(qkv, first, static_cast<std::size_t>(s.head_size));
          reference::norm_and_turn(key, gains_of(l, 1), k_epsilon, turns_.data() + cached * s.head_size / 2,
                                   reference::Precision::fp32);
          for (int d = 0; d < s.head_size; ++d) {
            auto const at = places.at(l, b, h, cached, d);
            auto const n = static_cast<std::size_t>(d);
            is_new[at] = true;
            wrong += is_stored_key(found_keys[at], key[n]) ? 0 : 1;
            wrong += found_values[at] != qkv[first + static_cast<std::size_t>(s.head_size + d)] ? 1 : 0;
          }
        }
    for (std::size_t i = 0; i < keys.size(); ++i)
      different += !is_new[i] && (found_keys[i] != keys[i] || found_values[i] != values[i]) ? 1 : 0;
    EXPECT_EQ(different, 0u) << "elements of the cache that nobody may write";
    EXPECT_EQ(wrong, 0u) << "elements of the newest token";
  }

  Shape s;
  Places places;
  Bits qkv, keys, values, gains;

 private:
  /// Of queries (0) or keys (1).
  Numbers gains_of(int layer, int which) const {
    auto const size = static_cast<std::size_t>(s.head_size);
    return s.norms ? numbers_of(
                         gains,
                         (2 * static_cast<std::size_t>(layer) + static_cast<std::size_t>(which)) * size, size)
                   : Numbers{};
  }
  std::vector<Turn> turns_;
};

void check(Shape const& s, unsigned seed) {
  SCOPED_TRACE(s.text());
  Problem const problem(s, seed);
  auto const machine = with_device();
  ASSERT_OK(machine);
  DeviceBuffer<unsigned short> qkv(problem.qkv.size()), keys(problem.keys.size()),
      values(problem.keys.size());
  auto const results = static_cast<std::size_t>(s.batch() * s.kv_heads * s.group * s.head_size);
  DeviceBuffer<unsigned short> output(results, 0xff);
  qkv.upload(problem.qkv), keys.upload(problem.keys), values.upload(problem.values);
  auto const table = rotation_table(reference::small_model().rotation, s.head_size, s.capacity);
  DeviceBuffer<Turn> turns(table.size());
  turns.upload(table);
  DeviceBuffer<int> cached(s.cached.size());
  cached.upload(s.cached);
  int const tiles = s.batch() * s.kv_heads * s.splits;
  DeviceBuffer<float> parts(static_cast<std::size_t>(tiles * s.group * (s.head_size + 2)), 0xff);
  DeviceBuffer<unsigned> arrived(static_cast<std::size_t>(s.batch() * s.kv_heads));

  RoleOptions options;
  options.chain.deadline_seconds = gpu::patient(options.chain.deadline_seconds);
  options.rings = {4, 16 * 1024, 2, 0, 4, 4096, attention_scratch_bytes(s.group, s.head_size, false)};
  DeviceBuffer<unsigned short> gains(std::max<std::size_t>(problem.gains.size(), 1));
  if (s.norms) gains.upload(problem.gains);
  AttentionArguments a;
  a.qkv = qkv.get(), a.output = output.get();
  a.keys = keys.get(), a.values = values.get();
  PagesOnDevice const pages(problem.places);
  a.layer_elements = static_cast<long long>(problem.places.shape().row(1, 0, 0, 0));
  a.pages = pages.pages;
  a.turns = turns.get(), a.cached = cached.get();
  a.window = s.window;
  if (s.norms) a.head_gains = gains.get(), a.norm_epsilon = static_cast<float>(k_epsilon);
  if (s.splits > 1) a.parts = parts.get();
  a.arrived = arrived.get();
  a.scale = static_cast<float>(1.4426950408889634 / std::sqrt(static_cast<double>(s.head_size)));
  a.layers = s.layers, a.batch = s.batch(), a.kv_heads = s.kv_heads, a.group = s.group;
  a.capacity = s.capacity, a.splits = s.splits;
  a.slot_positions = positions_of_slot(options.rings.slot_bytes, s.head_size);
  DeviceBuffer<AttentionArguments> arguments(1);
  arguments.upload({a});
  auto chain = attention_alone(*machine, tiles, options, {s.head_size, s.takes_extras()}, arguments.get());
  ASSERT_OK(chain);
  // Each launch ends with the last layer's.
  expect_twice(*chain, s.layers, output, 0xff, problem.expected(s.layers - 1, reference::Precision::fp32),
               problem.expected(s.layers - 1, reference::Precision::bf16));
  if (testing::Test::HasFatalFailure()) return;
  problem.check_cache(keys.download(), values.download());
  EXPECT_THAT(pages.wrong(), testing::Each(0));
}

TEST(DecodeAttention, Lengths) {
  for (int const cached : {0, 1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 200, 255, 256, 299})
    for (int const splits : {1, 2, 5, 16}) check({{cached}, 2, 4, 64, splits}, 7);
}
TEST(DecodeAttention, HeadsAndGroups) {
  for (int const head_size : {64, 128})
    for (int const group : {1, 2, 3, 4, 5, 6, 7, 8})
      for (int const kv_heads : {1, 8}) check({{77}, kv_heads, group, head_size, 4}, 11);
}
/// Of each layer with its own gains.
TEST(DecodeAttention, NormedHeads) {
  for (int const head_size : {64, 128})
    for (int const group : {1, 2, 7, 8})
      for (int const cached : {0, 1, 77, 299}) {
        Shape s{{cached, 15}, 2, group, head_size, 3, 3};
        s.norms = true;
        check(s, 37);
      }
}
TEST(DecodeAttention, Windows) {
  for (int const head_size : {64, 128})
    for (int const window : {1, 2, 16, 17, 100, 400})
      for (int const splits : {1, 3, 16}) {
        Shape s{{0, 15, 16, 31, 160, 299}, 2, 7, head_size, splits};
        s.window = window;
        check(s, 43);
      }
}
TEST(DecodeAttention, HeadsOf96) {
  for (int const group : {1, 3, 8})
    for (int const cached : {0, 1, 15, 16, 77, 299})
      for (int const window : {0, 40})
        for (int const page : {0, 16, 64}) {
          Shape s{{cached, 33}, 2, group, 96, 3};
          s.window = window, s.page = page;
          check(s, 71);
        }
  check({{4000}, 1, 4, 96, 2, 1, 4096}, 73);
}
/// Of pages that are smaller than a slot of the ring, as large, and larger; a slot ends within one.
TEST(DecodeAttention, Pages) {
  for (int const head_size : {64, 128})
    for (int const page : {16, 32, 48, 64, 256})
      for (int const splits : {1, 3, 16}) {
        Shape s{{0, 15, 16, 31, 48, 160, 299}, 2, 4, head_size, splits};
        s.page = page;
        check(s, 47);
        s.window = 100, s.norms = true;
        check(s, 53);
      }
  Shape many{{4000, 77}, 2, 4, 128, 2, 2, 4096};
  many.page = 16;
  check(many, 59);
}
/// By the kernel for heads that may be normed.
TEST(DecodeAttention, HeadsThatMayBeNormedAndAreNot) {
  for (int const head_size : {64, 128}) {
    Shape s{{77, 15}, 2, 7, head_size, 3};
    s.extras = true;
    check(s, 41);
  }
}
TEST(DecodeAttention, SequencesOfUnequalLengths) {
  check({{0, 300, 17, 1, 160}, 2, 4, 64, 3}, 13);
  check({{299, 0, 5, 64, 63, 31, 222}, 8, 4, 128, 1}, 17);
  std::vector<int> many;
  for (int i = 0; i < 64; ++i) many.push_back(i * 37 % 300);
  check({many, 2, 4, 64, 2, 1}, 19);
}
TEST(DecodeAttention, RandomShapes) {
  std::mt19937 random(5);
  auto const below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int i = 0; i < 60 && !testing::Test::HasFailure(); ++i) {
    Shape s;
    for (int b = below(5); b >= 0; --b) s.cached.push_back(below(301));
    s.kv_heads = 1 + below(8), s.group = 1 + below(8);
    s.head_size = below(2) == 0 ? 64 : 128;
    s.splits = 1 + below(k_most_splits);
    s.layers = 1 + below(3);
    check(s, static_cast<unsigned>(i));
  }
}
/// Queries and keys of zero: the mean of all values.
TEST(DecodeAttention, NoQueriesGiveTheMeanOfValues) {
  for (int const cached : {0, 1, 47, 300})
    for (int const splits : {1, 7}) {
      Shape s{{cached}, 2, 4, 64, splits};
      s.no_queries = true;
      check(s, 23);
    }
}
/// Enough positions that a part is more than one slot, and rings go round.
TEST(DecodeAttention, ManyPositions) {
  check({{4000}, 1, 4, 128, 2, 1, 4096}, 29);
  check({{3001, 4095}, 2, 2, 64, 1, 2, 4096}, 31);
}

}  // namespace
}  // namespace tessera::decode
