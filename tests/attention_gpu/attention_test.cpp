// SPDX-License-Identifier: Apache-2.0
// Attention of prompts beside plain arithmetic: all head sizes, masks, lengths and layouts.
#include "attention_gpu/attention_case.hpp"

#include <numeric>
#include <tuple>

namespace tessera::attention_sm90 {
namespace {

constexpr int k_window = 100;

enum class Mask { all, causal, window };

Problem with(Problem p, Mask mask) {
  p.causal = mask == Mask::causal;
  p.window = mask == Mask::window ? k_window : 0;
  return p;
}

// The simplest first: what fails in the first of them explains the others.
TEST(AttentionOnGpu, OneTileOfEachHeadSize) {
  for (int const head_size : {128, 64, 256, 96, 80}) {
    SCOPED_TRACE(head_size);
    Case(problem_of(head_size, 1, 1, 128), {}).check();
  }
}

TEST(AttentionOnGpu, SeveralBlocksOfKeys) {
  for (int const head_size : {128, 64, 256, 96, 80}) {
    SCOPED_TRACE(head_size);
    Case(problem_of(head_size, 2, 2, 512), {}).check();
  }
}

TEST(AttentionOnGpu, EqualQueriesAndKeysOfZeroGiveTheMeanOfValues) {
  for (int const head_size : {64, 80, 96, 128, 256}) {
    SCOPED_TRACE(head_size);
    Case c(problem_of(head_size, 2, 1, 300), {});
    std::fill(c.host_q().begin(), c.host_q().end(), Bits{0});
    std::fill(c.host_k().begin(), c.host_k().end(), Bits{0});
    c.upload();
    c.check();
    auto const results = c.results();
    for (int d = 0; d < head_size; ++d) {
      double mean = 0;
      for (int row = 0; row < 300; ++row)
        mean += double{number_of(c.host_v()[c.v().at(row, 0, d)], ElementType::bf16)} / 300;
      for (int const row : {0, 127, 128, 299})
        ASSERT_NEAR(double{c.result(results, row, 1, d)}, mean, 2e-3) << row << ", " << d;
    }
  }
}

class AttentionOfLengths : public ::testing::TestWithParam<std::tuple<int, ElementType, Mask>> {};

// 300 sequences in one launch.
TEST_P(AttentionOfLengths, From1To300) {
  auto const [head_size, type, mask] = GetParam();
  std::vector<int> lengths(300);
  std::iota(lengths.begin(), lengths.end(), 1);
  auto const offsets = offsets_of(lengths);
  auto p = with(problem_of(head_size, 2, 1, offsets.back(), type), mask);
  p.sequences = 300;
  p.longest_queries = 300;
  Case(p, {offsets, offsets, {}}).check();
}

// More keys than queries, as with a cached beginning, and fewer.
TEST_P(AttentionOfLengths, OfKeysThatAreNotThoseOfQueries) {
  auto const [head_size, type, mask] = GetParam();
  std::vector<int> queries, keys;
  std::mt19937 random(7);
  for (int i = 0; i < 60; ++i) {
    queries.push_back(1 + static_cast<int>(random() % 200));
    keys.push_back(1 + static_cast<int>(random() % 700));
  }
  queries.push_back(0), keys.push_back(5);
  queries.push_back(5), keys.push_back(0);
  queries.push_back(130), keys.push_back(128);
  auto const query_offsets = offsets_of(queries), key_offsets = offsets_of(keys);
  auto p = with(problem_of(head_size, 4, 2, query_offsets.back(), type), mask);
  p.key_rows = key_offsets.back();
  p.sequences = static_cast<int>(queries.size());
  p.longest_queries = 200;
  Case(p, {query_offsets, key_offsets, {}}).check();
}

TEST_P(AttentionOfLengths, OfLongPrompts) {
  auto const [head_size, type, mask] = GetParam();
  for (int const length : {512, 1000, 2048}) {
    SCOPED_TRACE(length);
    Case(with(problem_of(head_size, 4, 4, length, type), mask), {}).check();
  }
}

INSTANTIATE_TEST_SUITE_P(All, AttentionOfLengths,
                         ::testing::Combine(::testing::Values(64, 80, 96, 128, 256),
                                            ::testing::Values(ElementType::bf16, ElementType::fp16),
                                            ::testing::Values(Mask::all, Mask::causal, Mask::window)));

TEST(AttentionOnGpu, LargeScoresAndManyKeys) {
  Case(with(problem_of(128, 2, 2, 1500), Mask::causal), {}, 4).check();
  Case(with(problem_of(64, 2, 2, 5000), Mask::causal), {}, 0.3f).check();
}

TEST(AttentionOnGpu, GroupsOfHeads) {
  for (auto const& [heads, key_heads] : {std::pair{8, 1}, {8, 2}, {12, 4}, {6, 6}}) {
    SCOPED_TRACE(key_heads);
    Case(with(problem_of(128, heads, key_heads, 333), Mask::causal), {}).check();
  }
}

TEST(AttentionOnGpu, ColumnsOfOneMatrix) {
  // [tokens][3 * heads * head_size]: q, k and v side by side, here in arrays of their own with such rows.
  auto p = problem_of(128, 3, 3, 400);
  p.q.row = p.k.row = p.v.row = 3 * 3 * 128;
  Case(p, {}).check();
  // [tokens][key head][its heads, key, value][head_size].
  auto grouped = problem_of(64, 6, 2, 400);
  grouped.q = grouped.out = {2 * 5 * 64, 64, 5 * 64};
  grouped.k = grouped.v = {2 * 5 * 64, 5 * 64, 0};
  Case(with(grouped, Mask::causal), {}).check();
}

// torch's tensors of several sequences: [sequence][head][token][head_size], beside [sequence][token][head]
// for q and out, in one launch.
TEST(AttentionOnGpu, SequencesAtSteps) {
  constexpr int sequences = 3, heads = 4, key_heads = 2, queries = 200, keys = 333;
  for (int const size : {64, 80, 128}) {
    SCOPED_TRACE(size);
    auto p = problem_of(size, heads, key_heads, sequences * queries);
    p.sequences = sequences;
    p.k = p.v = {size, 1LL * keys * size, 0};
    p.key_step = key_heads * keys;
    p.key_rows = (sequences - 1) * p.key_step + keys;
    Case(with(p, Mask::causal), {}).check();
    p.q = p.out = {size, 1LL * queries * size, 2LL * queries * size};
    p.query_step = heads * queries;
    p.query_rows = (sequences - 1) * p.query_step + queries;
    Case(with(p, Mask::causal), {}).check();
    Case(with(p, Mask::window), {}).check();
  }
}

// One matrix indeed: pointers into it.
TEST(AttentionOnGpu, PointersIntoOneMatrix) {
  constexpr int heads = 4, size = 128, rows = 300, width = heads * size;
  Case apart(with(problem_of(size, heads, heads, rows), Mask::causal), {});
  apart.check();
  std::vector<Bits> joint(3 * rows * width);
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t i = 0; i < width; ++i) {
      joint[(3 * row + 0) * width + i] = apart.host_q()[row * width + i];
      joint[(3 * row + 1) * width + i] = apart.host_k()[row * width + i];
      joint[(3 * row + 2) * width + i] = apart.host_v()[row * width + i];
    }
  gpu::DeviceBuffer<Bits> matrix(joint.size());
  matrix.upload(joint);
  auto p = apart.problem();
  p.q.row = p.k.row = p.v.row = 3 * width;
  apart.clear();
  ASSERT_OK(attention(apart.problem(), apart.device_q(), apart.device_k(), apart.device_v(),
                      apart.device_out(), nullptr));
  auto const expected = apart.results();
  apart.clear();
  ASSERT_OK(attention(p, matrix.get(), matrix.get() + width, matrix.get() + 2 * width, apart.device_out(),
                      nullptr));
  EXPECT_EQ(apart.results(), expected);
}

// A cache with room: [sequence][key head][capacity][head_size], what is behind the keys is no number.
TEST(AttentionOnGpu, ACacheWithRoom) {
  constexpr int capacity = 700, key_heads = 2;
  for (int const head_size : {64, 128, 256})
    for (auto const mask : {Mask::all, Mask::causal, Mask::window}) {
      SCOPED_TRACE(head_size);
      std::vector<int> const queries{1, 64, 200, 130}, keys{500, 64, 333, 700};
      auto p = with(problem_of(head_size, 4, key_heads, offsets_of(queries).back()), mask);
      p.sequences = 4;
      p.longest_queries = 200;
      p.k = p.v = {head_size, capacity * head_size, 0};
      HostLengths lengths{offsets_of(queries), {}, keys};
      for (int i = 0; i < 4; ++i) lengths.key_offsets.push_back(i * key_heads * capacity);
      p.key_rows = 3 * key_heads * capacity + capacity;  // from where the last sequence's first head begins
      Case c(p, lengths);
      c.check();
      // The same with rows turned as kernels/decode has them.
      auto const expected = c.results();
      auto turn = [&](std::vector<Bits>& rows) {
        auto const as_it_was = rows;
        for (std::size_t i = 0; i < rows.size(); ++i) {
          std::size_t const size = static_cast<std::size_t>(head_size), row = i / size % capacity,
                            d = i % size;
          rows[i / size * size + ((d / 8) ^ (row & 7)) * 8 + d % 8] = as_it_was[i];
        }
      };
      turn(c.host_k());
      turn(c.host_v());
      c.upload();
      c.problem().turned_keys = true;
      c.clear();
      c.run();
      EXPECT_EQ(c.results(), expected) << "turned";
    }
}

TEST(AttentionOnGpu, ASequenceOfNoNumbersHarmsNoOther) {
  std::vector<int> const lengths{100, 37, 300, 1, 129};
  auto p = with(problem_of(128, 2, 2, offsets_of(lengths).back()), Mask::causal);
  p.sequences = 5;
  p.longest_queries = 300;
  Case c(p, {offsets_of(lengths), offsets_of(lengths), {}});
  c.check();
  auto const expected = c.results();
  auto const at = static_cast<std::size_t>(2 * 128);
  for (auto* const rows : {&c.host_q(), &c.host_k(), &c.host_v()})
    std::fill(rows->begin() + 137 * at, rows->begin() + 437 * at, k_no_number);
  c.upload();
  c.clear();
  c.run();
  auto const results = c.results();
  c.for_each([&](int sequence, int query, int head, std::size_t i) {
    if (sequence == 2) return;
    ASSERT_EQ(results[i], expected[i]) << sequence << ", " << query << ", " << head;
  });
}

TEST(AttentionOnGpu, TheLastQueryStandsAtTheLastKey) {
  auto p = problem_of(64, 1, 1, 4);
  p.key_rows = 6;
  p.causal = true;
  Case c(p, {});
  // Queries of zeros: each gives the mean of the values that it sees, here 3 to 6 of 0, 1, 2, ...
  std::fill(c.host_q().begin(), c.host_q().end(), Bits{0});
  for (int row = 0; row < 6; ++row)
    for (int d = 0; d < 64; ++d)
      c.host_v()[c.v().at(row, 0, d)] = bits_of(static_cast<float>(row), ElementType::bf16);
  c.upload();
  c.run();
  auto const results = c.results();
  for (int query = 0; query < 4; ++query)
    EXPECT_EQ(c.result(results, query, 0, 5), static_cast<float>(query + 2) / 2) << query;
}

TEST(AttentionOnGpu, QueriesThatSeeNothingGiveZeros) {
  auto p = problem_of(128, 1, 1, 300);
  p.key_rows = 100;
  p.causal = true;
  Case c(p, {});
  c.check();
  auto const results = c.results();
  EXPECT_EQ(c.result(results, 0, 0, 0), 0);
  EXPECT_EQ(c.result(results, 199, 0, 127), 0);
  EXPECT_NE(c.result(results, 200, 0, 0), 0);
}

TEST(AttentionOnGpu, EqualBitsOnRepeat) {
  for (int const head_size : {64, 128, 256}) {
    Case c(with(problem_of(head_size, 8, 2, 1000), Mask::causal), {});
    c.run();
    auto const first = c.results();
    for (int i = 0; i < 20; ++i) {
      c.clear();
      c.run();
      ASSERT_EQ(c.results(), first) << i;
    }
  }
}

TEST(AttentionOnGpu, OutMayBeQ) {
  Case c(with(problem_of(128, 4, 4, 500), Mask::causal), {});
  c.check();
  auto const expected = c.results();
  ASSERT_OK(attention(c.problem(), c.device_q(), c.device_k(), c.device_v(), c.device_q(), nullptr));
  std::vector<Bits> got(expected.size());
  ASSERT_EQ(cudaMemcpy(got.data(), c.device_q(), 2 * got.size(), cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(got, expected);
}

// One graph, other lengths.
TEST(AttentionOnGpu, AGraphServesAllLengths) {
  std::vector<int> const first{100, 200, 300}, then{290, 10, 0};
  auto p = with(problem_of(128, 2, 2, 600), Mask::causal);
  p.sequences = 3;
  p.longest_queries = 300;
  Case c(p, {offsets_of(first), offsets_of(first), {}});
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t ready = nullptr;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  auto const enqueued =
      attention(c.problem(), c.device_q(), c.device_k(), c.device_v(), c.device_out(), stream);
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  ASSERT_OK(enqueued);
  ASSERT_EQ(cudaGraphInstantiate(&ready, graph, 0), cudaSuccess);
  for (auto const& lengths : {first, then}) {
    c.lengths() = {offsets_of(lengths), offsets_of(lengths), {}};
    c.upload();
    c.clear();
    ASSERT_EQ(cudaGraphLaunch(ready, stream), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    c.compare(c.results());
  }
  (void)cudaGraphExecDestroy(ready);
  (void)cudaGraphDestroy(graph);
  (void)cudaStreamDestroy(stream);
}

TEST(AttentionOnGpu, DropoutIsThatOfItsSeed) {
  for (int const head_size : {64, 80, 128})
    for (auto const mask : {Mask::all, Mask::causal}) {
      SCOPED_TRACE(head_size);
      std::vector<int> const lengths{300, 77, 512};
      auto p = with(problem_of(head_size, 4, 2, offsets_of(lengths).back()), mask);
      p.sequences = 3;
      p.longest_queries = 512;
      p.drop = 0.25f;
      p.seed = 0x123456789abcdefULL;
      Case c(p, {offsets_of(lengths), offsets_of(lengths), {}});
      c.check();
      auto const first = c.results();
      c.problem().seed += 1;
      c.run();
      EXPECT_NE(c.results(), first);
    }
}

}  // namespace
}  // namespace tessera::attention_sm90
