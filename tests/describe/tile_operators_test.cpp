// SPDX-License-Identifier: Apache-2.0
// Dependences of tile() against a brute force over elements that knows nothing of tiles' expressions.
#include <gmock/gmock.h>

#include <algorithm>
#include <random>
#include <set>

#include "tessera/describe/tile_relation.hpp"
#include "tessera/describe/workload.hpp"

namespace tessera {
namespace {

/// An element of an operator's output as stored.
struct Element {
  std::int64_t row, column, batch;
};

/// Elements that output element `at` of `op` needs of the producer that `input` reads. Written from the
/// definition of each computation.
std::vector<Element> needed(OperatorGraph const& graph, Operator const& op, Operator const& from,
                            OperatorInput const& input, Element const& at) {
  std::vector<Element> out;
  auto const& a = graph.attention;
  auto const& c = graph.conv;
  auto const sequence = at.batch / a.query_heads;
  auto const head = at.batch % a.query_heads;
  auto const kv_head = head / (a.query_heads / a.kv_heads);
  auto const columns = from.epilogue == Epilogue::swiglu ? from.n / 2 : from.n;
  switch (input.pattern) {
    case ReadPattern::rows:
    case ReadPattern::same_batch_rows:
    case ReadPattern::swiglu_pair:
      for (std::int64_t k = 0; k < columns; ++k) out.push_back({at.row, k, at.batch});
      break;
    case ReadPattern::same_tile: out.push_back(at); break;
    case ReadPattern::query_heads:
      for (std::int64_t d = 0; d < a.head_dim; ++d)
        out.push_back({sequence * a.tokens + at.row, head * a.head_dim + d, 0});
      break;
    case ReadPattern::key_heads:
      if (at.column >= a.cached)
        for (std::int64_t d = 0; d < a.head_dim; ++d)
          out.push_back(
              {sequence * a.tokens + at.column - a.cached, (a.query_heads + kv_head) * a.head_dim + d, 0});
      break;
    case ReadPattern::value_heads:
      for (std::int64_t token = 0; token < a.tokens; ++token)
        out.push_back({sequence * a.tokens + token,
                       (a.query_heads + a.kv_heads + kv_head) * a.head_dim + at.column, 0});
      break;
    case ReadPattern::heads_to_columns:
      for (std::int64_t k = 0; k < op.k; ++k)
        out.push_back(
            {at.row % a.tokens, k % a.head_dim, at.row / a.tokens * a.query_heads + k / a.head_dim});
      break;
    case ReadPattern::conv_halo: {
      auto const image = at.row / (c.p * c.q);
      auto const i = at.row / c.q % c.p;
      auto const j = at.row % c.q;
      for (auto di = -(c.r / 2); di <= c.r / 2; ++di)
        for (auto dj = -(c.s / 2); dj <= c.s / 2; ++dj)
          if (i + di >= 0 && i + di < c.p && j + dj >= 0 && j + dj < c.q)
            for (std::int64_t channel = 0; channel < c.channels; ++channel)
              out.push_back({(image * c.p + i + di) * c.q + j + dj, channel, 0});
      break;
    }
  }
  return out;
}

/// Tile width as stored.
std::int64_t stored_width(Operator const& op, KernelEntry const& kernel) {
  if (op.kind == OperatorKind::softmax_dropout) return op.n;
  return op.epilogue == Epilogue::swiglu ? kernel.tile_n / 2 : kernel.tile_n;
}

void expect_exact(OperatorGraph const& graph, std::vector<TileChoice> const& choices,
                  std::string const& what) {
  auto const pipeline = tile(graph, choices);
  ASSERT_TRUE(pipeline) << what << "\n" << to_text(pipeline.error());
  std::size_t next = 0;
  for (std::size_t s = 0; s < graph.operators.size(); ++s) {
    auto const& op = graph.operators[s];
    for (auto const& input : op.inputs) {
      if (input.producer.empty()) continue;
      auto const& dependence = pipeline->dependences.at(next++);
      ASSERT_EQ(dependence.consumer, static_cast<int>(s));
      ASSERT_EQ(dependence.operand, input.name);
      auto const p = static_cast<std::size_t>(dependence.producer);
      auto const& from = graph.operators[p];
      auto const grid = pipeline->stages[s].tile_grid();
      auto const producer_grid = pipeline->stages[p].tile_grid();
      std::vector<std::set<std::int64_t>> expected(static_cast<std::size_t>(grid.tiles()));
      auto const columns = op.epilogue == Epilogue::swiglu ? op.n / 2 : op.n;
      for (std::int64_t b = 0; b < op.batch; ++b)
        for (std::int64_t row = 0; row < op.m; ++row)
          for (std::int64_t column = 0; column < columns; ++column) {
            Tile reader;
            reader.at[0] = static_cast<int>(column / stored_width(op, choices[s].kernel));
            reader.at[1] = static_cast<int>(row / choices[s].kernel.tile_m);
            reader.at[2] = static_cast<int>(b);
            auto& tiles = expected[static_cast<std::size_t>(linear_of(grid, reader))];
            for (auto const& e : needed(graph, op, from, input, {row, column, b})) {
              Tile written;
              written.at[0] = static_cast<int>(e.column / stored_width(from, choices[p].kernel));
              written.at[1] = static_cast<int>(e.row / choices[p].kernel.tile_m);
              written.at[2] = static_cast<int>(e.batch);
              tiles.insert(linear_of(producer_grid, written));
            }
          }
      TileRelation const relation(*pipeline, dependence);
      std::vector<std::int64_t> got;
      for (std::int64_t t = 0; t < grid.tiles(); ++t) {
        relation.producers_of(t, got);
        auto const& want = expected[static_cast<std::size_t>(t)];
        ASSERT_EQ(got, std::vector<std::int64_t>(want.begin(), want.end()))
            << what << "\n"
            << op.name << "." << input.name << " tile " << tile_name(pipeline->stages[s], t);
      }
      // Ranges must be inside the grid as they stand: nothing is hidden by cutting them.
      for (std::int64_t t = 0; t < grid.tiles(); ++t) {
        auto const tile = tile_of(grid, t);
        for (auto const& access : dependence.accesses) {
          bool empty = false;
          for (auto const& range : access.ranges)
            empty = empty || range.begin.evaluate(tile.at) >= range.end.evaluate(tile.at);
          for (std::size_t d = 0; d < access.ranges.size() && !empty; ++d) {
            ASSERT_FALSE(access.ranges[d].clamp);
            ASSERT_GE(access.ranges[d].begin.evaluate(tile.at), 0) << what;
            ASSERT_LE(access.ranges[d].end.evaluate(tile.at), producer_grid.extent[d]) << what;
          }
        }
      }
    }
  }
  ASSERT_EQ(next, pipeline->dependences.size());
}

class Dice {
 public:
  explicit Dice(unsigned seed) : engine_(seed) {}
  std::int64_t in(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(engine_);
  }
  bool coin() { return in(0, 1) == 1; }

 private:
  std::mt19937 engine_;
};

TileChoice choice(OperatorKind kind, std::int64_t m, std::int64_t n) {
  TileChoice result;
  result.kernel.name = "k";
  result.kernel.kind = kind;
  result.kernel.tile_m = static_cast<int>(m);
  result.kernel.tile_n = static_cast<int>(n);
  result.kernel.tile_k = 4;
  result.kernel.forms = {{{ElementType::bf16}, {Epilogue::none, Epilogue::gelu, Epilogue::swiglu}, 2, {}}};
  return result;
}

OperatorInput from(std::string name, std::string producer, ReadPattern pattern) {
  return {std::move(name), producer, producer, pattern};
}

TEST(TileOperators, mlp_rows_match_brute_force) {
  Dice dice(1);
  for (int round = 0; round < 300; ++round) {
    auto const m = dice.in(1, 20), f = dice.in(1, 12), n = dice.in(1, 12);
    OperatorGraph graph;
    graph.name = "mlp";
    bool const pair = dice.coin();
    bool const fused = !pair && dice.coin();
    Operator up{"up",
                OperatorKind::gemm,
                fused ? Epilogue::swiglu : Epilogue::none,
                m,
                pair || fused ? 2 * f : f,
                5,
                1,
                {{"a", "x", "", {}}, {"b", "w1", "", {}}},
                "",
                {}};
    Operator down{"down",
                  OperatorKind::gemm,
                  Epilogue::none,
                  m,
                  n,
                  f,
                  1,
                  {from("a", "up", pair ? ReadPattern::swiglu_pair : ReadPattern::rows), {"b", "w2", "", {}}},
                  "",
                  {}};
    graph.operators = {up, down};
    auto const width = 2 * dice.in(1, 4);
    expect_exact(graph,
                 {choice(OperatorKind::gemm, dice.in(1, 9), width),
                  choice(OperatorKind::gemm, dice.in(1, 9), dice.in(1, 9))},
                 "round " + std::to_string(round));
    if (HasFatalFailure()) return;
  }
}

TEST(TileOperators, attention_matches_brute_force) {
  Dice dice(2);
  for (int round = 0; round < 400; ++round) {
    AttentionShape a;
    a.sequences = dice.in(1, 3);
    a.tokens = dice.in(1, 7);
    a.cached = dice.coin() ? 0 : dice.in(1, 9);
    a.kv_heads = dice.in(1, 2);
    a.query_heads = a.kv_heads * dice.in(1, 3);
    a.head_dim = dice.in(1, 5);
    auto const entries = a.sequences * a.query_heads;
    auto const keys = a.cached + a.tokens;
    OperatorGraph graph;
    graph.name = "attention";
    graph.attention = a;
    graph.operators = {
        {"qkv",
         OperatorKind::gemm,
         Epilogue::none,
         a.sequences * a.tokens,
         (a.query_heads + 2 * a.kv_heads) * a.head_dim,
         3,
         1,
         {{"a", "x", "", {}}},
         "",
         {}},
        {"scores",
         OperatorKind::gemm,
         Epilogue::none,
         a.tokens,
         keys,
         a.head_dim,
         entries,
         {from("a", "qkv", ReadPattern::query_heads), from("b", "qkv", ReadPattern::key_heads)},
         "",
         {}},
        {"softmax",
         OperatorKind::softmax_dropout,
         Epilogue::none,
         a.tokens,
         keys,
         1,
         entries,
         {from("a", "scores", ReadPattern::same_batch_rows)},
         "",
         {}},
        {"context",
         OperatorKind::gemm,
         Epilogue::none,
         a.tokens,
         a.head_dim,
         keys,
         entries,
         {from("a", "softmax", ReadPattern::same_batch_rows), from("b", "qkv", ReadPattern::value_heads)},
         "",
         {}},
        {"output",
         OperatorKind::gemm,
         Epilogue::none,
         a.sequences * a.tokens,
         6,
         a.query_heads * a.head_dim,
         1,
         {from("a", "context", ReadPattern::heads_to_columns)},
         "",
         {}}};
    std::vector<TileChoice> choices;
    for (auto const& op : graph.operators) choices.push_back(choice(op.kind, dice.in(1, 9), dice.in(1, 9)));
    expect_exact(graph, choices, "round " + std::to_string(round));
    if (HasFatalFailure()) return;
  }
}

TEST(TileOperators, convolutions_match_brute_force) {
  Dice dice(3);
  for (int round = 0; round < 600; ++round) {
    ConvShape c;
    c.images = dice.in(1, 4);
    c.p = dice.in(1, 5);
    c.q = dice.in(1, 6);
    c.channels = dice.in(1, 3);
    c.r = 2 * dice.in(0, 2) + 1;
    c.s = 2 * dice.in(0, 2) + 1;
    OperatorGraph graph;
    graph.name = "conv";
    graph.conv = c;
    Operator first{"conv1",
                   OperatorKind::conv2d,
                   Epilogue::none,
                   c.images * c.p * c.q,
                   c.channels,
                   c.channels * c.r * c.s,
                   1,
                   {{"a", "x", "", {}}, {"b", "w", "", {}}},
                   "",
                   {}};
    auto second = first;
    second.name = "conv2";
    second.inputs[0] = from("a", "conv1", ReadPattern::conv_halo);
    graph.operators = {first, second};
    expect_exact(graph,
                 {choice(OperatorKind::conv2d, dice.in(1, 14), dice.in(1, 4)),
                  choice(OperatorKind::conv2d, dice.in(1, 14), dice.in(1, 4))},
                 "round " + std::to_string(round));
    if (HasFatalFailure()) return;
  }
}

TEST(TileOperators, element_wise_copies_match_brute_force) {
  Dice dice(4);
  for (int round = 0; round < 200; ++round) {
    OperatorGraph graph;
    graph.name = "copies";
    auto const m = dice.in(1, 9), n = dice.in(1, 9), batch = dice.in(1, 3);
    graph.operators = {
        {"first", OperatorKind::copy, Epilogue::none, m, n, 1, batch, {{"a", "x", "", {}}}, "", {}},
        {"second",
         OperatorKind::copy,
         Epilogue::none,
         m,
         n,
         1,
         batch,
         {from("a", "first", ReadPattern::same_tile)},
         "",
         {}}};
    expect_exact(graph,
                 {choice(OperatorKind::copy, dice.in(1, 6), dice.in(1, 6)),
                  choice(OperatorKind::copy, dice.in(1, 6), dice.in(1, 6))},
                 "round " + std::to_string(round));
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace tessera
