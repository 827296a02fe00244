// SPDX-License-Identifier: Apache-2.0
// Attention in one kernel: which tiles its tiles read, and what they cost, against a brute force over tokens
// that knows nothing of tiles' expressions; and what is refused.
#include <gmock/gmock.h>

#include <random>
#include <set>

#include "tessera/describe/tile_relation.hpp"
#include "tessera/describe/workload.hpp"
#include "tessera/describe/workload_key.hpp"

namespace tessera {
namespace {

using testing::HasSubstr;

/// Sequences one behind the other: where one begins, and its tokens.
struct Part {
  std::int64_t first = 0, tokens = 0;
  std::int64_t first_block = 0;  ///< of blocks of so many queries, each sequence's by itself
};
using Prompts = std::vector<std::int64_t>;
std::vector<Part> parts_of(AttentionShape const& a, Prompts const& prompts, std::int64_t tile = 1) {
  auto lengths = prompts;
  if (lengths.empty()) lengths.assign(static_cast<std::size_t>(a.sequences), a.tokens);
  std::vector<Part> parts;
  Part next;
  for (auto const tokens : lengths) {
    parts.push_back({next.first, tokens, next.first_block});
    next.first += tokens, next.first_block += (tokens + tile - 1) / tile;
  }
  return parts;
}
std::int64_t all_rows(AttentionShape const& a, Prompts const& prompts) {
  auto const last = parts_of(a, prompts).back();
  return last.first + last.tokens;
}

void shape_for(AttentionShape& a, Prompts const& prompts) {
  a.sequences = std::ssize(prompts);
  a.tokens = *std::max_element(prompts.begin(), prompts.end());
}

OperatorGraph block_of(AttentionShape const& a, std::int64_t hidden, Prompts const& prompts = {}) {
  auto const rows = all_rows(a, prompts), width = a.query_heads * a.head_dim;
  OperatorGraph graph;
  graph.name = "block";
  graph.attention = a;
  Operator qkv{"qkv",
               OperatorKind::gemm,
               Epilogue::none,
               rows,
               (a.query_heads + 2 * a.kv_heads) * a.head_dim,
               hidden,
               1,
               {{"a", "x", "", {}}, {"b", "w", "", {}}},
               "",
               {}};
  Operator attention{"attention",
                     OperatorKind::attention,
                     Epilogue::none,
                     rows,
                     width,
                     a.head_dim,
                     1,
                     {{"a", "qkv", "qkv", ReadPattern::query_heads},
                      {"b", "qkv", "qkv", ReadPattern::key_heads},
                      {"c", "qkv", "qkv", ReadPattern::value_heads}},
                     "",
                     {}};
  if (a.cached > 0) {
    attention.inputs.push_back({"b_cached", "k_cache", "", ReadPattern::key_heads});
    attention.inputs.push_back({"c_cached", "v_cache", "", ReadPattern::value_heads});
  }
  attention.groups = prompts;
  if (!prompts.empty()) attention.inputs.push_back({"offsets", "offsets", "", ReadPattern::rows});
  Operator output{"output",
                  OperatorKind::gemm,
                  Epilogue::none,
                  rows,
                  hidden,
                  width,
                  1,
                  {{"a", "attention", "attention", ReadPattern::rows}, {"b", "w_output", "", {}}},
                  "",
                  {}};
  graph.operators = {qkv, attention, output};
  return graph;
}

TileChoice choice(OperatorKind kind, std::int64_t m, std::int64_t n, std::int64_t k = 8) {
  TileChoice result;
  result.kernel.name = "k";
  result.kernel.kind = kind;
  result.kernel.tile_m = static_cast<int>(m);
  result.kernel.tile_n = static_cast<int>(n);
  result.kernel.tile_k = static_cast<int>(k);
  result.kernel.forms = {{{ElementType::bf16}, {Epilogue::none}, 2, {}}};
  return result;
}

/// Keys of a sequence, those of its cache first, that new token `token` sees: what the words causal and
/// window mean.
bool sees(AttentionShape const& a, std::int64_t token, std::int64_t key) {
  auto const own = a.cached + token;
  if ((a.causal || a.window > 0) && key > own) return false;
  return a.window == 0 || key > own - a.window;
}

/// A case: sizes, and tiles of the three operators.
struct Case {
  AttentionShape a;
  Prompts prompts = {};  // of unequal length
  std::int64_t hidden = 8;
  TileChoice qkv, attention, output;
};

Case some_case(std::mt19937& random) {
  auto const in = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  Case c;
  c.a.sequences = in(1, 3);
  c.a.tokens = in(1, 24);
  c.a.cached = in(0, 1) * in(1, 10);
  c.a.kv_heads = in(1, 3);
  c.a.query_heads = c.a.kv_heads * in(1, 3);
  c.a.head_dim = in(1, 6);
  c.a.causal = in(0, 1) == 1;
  c.a.window = in(0, 2) == 0 ? in(1, 12) : 0;
  if (c.a.cached == 0 && in(0, 1) == 1) {
    for (auto prompts = in(1, 8); prompts > 0; --prompts) c.prompts.push_back(in(1, 24));
    shape_for(c.a, c.prompts);
    c.a.causal = c.a.window == 0;
    if (c.a.window > 0) c.a.window = c.a.tokens + in(0, 3);
  }
  c.qkv = choice(OperatorKind::gemm, in(1, 14), in(1, 14));
  c.attention = choice(OperatorKind::attention, in(1, 9), c.a.head_dim, in(1, 9));
  c.output = choice(OperatorKind::gemm, in(1, 14), in(1, 14));
  return c;
}

struct TileReads {
  std::set<std::int64_t> a, b, c;
};

// What each tile of attention reads of qkv, token by token.
std::vector<TileReads> reads_by_tokens(Case const& c, TileGrid const& qkv, TileGrid const& grid) {
  auto const& a = c.a;
  std::vector<TileReads> result(static_cast<std::size_t>(grid.tiles()));
  auto const add = [&](std::set<std::int64_t>& to, std::int64_t row, std::int64_t head) {
    for (std::int64_t d = 0; d < a.head_dim; ++d) {
      Tile tile;
      tile.at[0] = static_cast<int>((head * a.head_dim + d) / c.qkv.kernel.tile_n);
      tile.at[1] = static_cast<int>(row / c.qkv.kernel.tile_m);
      to.insert(linear_of(qkv, tile));
    }
  };
  for (auto const& part : parts_of(a, c.prompts, c.attention.kernel.tile_m))
    for (std::int64_t head = 0; head < a.query_heads; ++head)
      for (std::int64_t token = 0; token < part.tokens; ++token) {
        Tile tile;
        tile.at[0] = static_cast<int>(head);
        tile.at[1] = static_cast<int>(part.first_block + token / c.attention.kernel.tile_m);
        auto& reads = result[static_cast<std::size_t>(linear_of(grid, tile))];
        auto const kv_head = head / (a.query_heads / a.kv_heads);
        add(reads.a, part.first + token, head);
        for (std::int64_t other = 0; other < part.tokens; ++other)
          if (sees(a, token, a.cached + other)) {
            add(reads.b, part.first + other, a.query_heads + kv_head);
            add(reads.c, part.first + other, a.query_heads + a.kv_heads + kv_head);
          }
      }
  return result;
}

void expect_reads(Pipeline const& pipeline, Dependence const& dependence, std::int64_t tile,
                  std::set<std::int64_t> const& expected) {
  TileRelation const relation(pipeline, dependence);
  std::vector<std::int64_t> got;
  relation.producers_of(tile, got);
  ASSERT_EQ(got, std::vector<std::int64_t>(expected.begin(), expected.end()))
      << dependence.operand << " of "
      << tile_name(pipeline.stages[static_cast<std::size_t>(dependence.consumer)], tile);
  // Inside of the grid as they stand: nothing is hidden by cutting them.
  auto const at = tile_of(relation.consumer_grid(), tile);
  for (auto const& access : dependence.accesses)
    for (std::size_t d = 0; d < access.ranges.size(); ++d) {
      ASSERT_GE(access.ranges[d].begin.evaluate(at.at), 0);
      ASSERT_LE(access.ranges[d].end.evaluate(at.at), relation.producer_grid().extent[d]);
    }
}

TEST(FusedAttention, TilesReadWhatTheirQueriesSee) {
  std::mt19937 random(14);
  for (int i = 0; i < 1500; ++i) {
    auto const c = some_case(random);
    auto const& a = c.a;
    SCOPED_TRACE(testing::Message() << "case " << i << ": " << a.sequences << " x " << a.tokens << " tokens, "
                                    << testing::PrintToString(c.prompts) << ", " << a.cached
                                    << " cached, causal " << a.causal << ", window " << a.window);
    auto const pipeline = tile(block_of(a, c.hidden, c.prompts), {c.qkv, c.attention, c.output});
    ASSERT_TRUE(pipeline) << to_text(pipeline.error());
    auto const qkv = pipeline->stages[0].tile_grid(), grid = pipeline->stages[1].tile_grid(),
               output = pipeline->stages[2].tile_grid();
    ASSERT_EQ(pipeline->dependences.size(), 4U);
    auto const expected = reads_by_tokens(c, qkv, grid);
    for (std::int64_t t = 0; t < grid.tiles(); ++t) {
      auto const& reads = expected[static_cast<std::size_t>(t)];
      expect_reads(*pipeline, pipeline->dependences[0], t, reads.a);
      expect_reads(*pipeline, pipeline->dependences[1], t, reads.b);
      expect_reads(*pipeline, pipeline->dependences[2], t, reads.c);
      if (HasFatalFailure()) return;
    }
    // The output product: all heads of its rows.
    std::vector<std::set<std::int64_t>> of_output(static_cast<std::size_t>(output.tiles()));
    for (auto const& part : parts_of(a, c.prompts, c.attention.kernel.tile_m))
      for (std::int64_t token = 0; token < part.tokens; ++token)
        for (std::int64_t head = 0; head < a.query_heads; ++head)
          for (int x = 0; x < output.extent[0]; ++x) {
            Tile reader, read;
            reader.at[0] = x;
            reader.at[1] = static_cast<int>((part.first + token) / c.output.kernel.tile_m);
            read.at[0] = static_cast<int>(head);
            read.at[1] = static_cast<int>(part.first_block + token / c.attention.kernel.tile_m);
            of_output[static_cast<std::size_t>(linear_of(output, reader))].insert(linear_of(grid, read));
          }
    for (std::int64_t t = 0; t < output.tiles(); ++t) {
      expect_reads(*pipeline, pipeline->dependences[3], t, of_output[static_cast<std::size_t>(t)]);
      if (HasFatalFailure()) return;
    }
  }
}

// The grid's totals: bytes of keys that some query of a tile sees, operations of whole blocks of keys.
TEST(FusedAttention, CostsAreThoseOfTheKeysThatAreSeen) {
  std::mt19937 random(65);
  for (int i = 0; i < 300; ++i) {
    auto const c = some_case(random);
    auto const& a = c.a;
    SCOPED_TRACE(i);
    auto const& kernel = c.attention.kernel;
    auto const pipeline = tile(block_of(a, c.hidden, c.prompts), {c.qkv, c.attention, c.output});
    ASSERT_TRUE(pipeline) << to_text(pipeline.error());
    auto const& stage = pipeline->stages[1];
    double fresh = 0, cached = 0, steps = 0, distinct_cached = 0;
    for (auto const& part : parts_of(a, c.prompts)) {
      std::set<std::int64_t> distinct;
      for (std::int64_t first = 0; first < part.tokens; first += kernel.tile_m) {
        std::set<std::int64_t> keys, slices;
        for (auto token = first; token < std::min(first + kernel.tile_m, part.tokens); ++token)
          for (std::int64_t key = 0; key < a.cached + part.tokens; ++key)
            if (sees(a, token, key)) keys.insert(key), slices.insert(key / kernel.tile_k);
        for (auto const key : keys) (key < a.cached ? cached : fresh) += 1;
        distinct.insert(keys.begin(), keys.end());
        steps += static_cast<double>(slices.size());
      }
      distinct_cached += static_cast<double>(
          std::count_if(distinct.begin(), distinct.end(), [&](auto key) { return key < a.cached; }));
    }
    auto const tiles = static_cast<double>(a.query_heads), kv_heads = static_cast<double>(a.kv_heads);
    auto const blocks = static_cast<double>(stage.blocks()), row = static_cast<double>(2 * a.head_dim);
    auto const rows = static_cast<double>(all_rows(a, c.prompts) * a.query_heads);
    EXPECT_NEAR(stage.operands[0].bytes_per_block * blocks, rows * row, 1e-6);
    EXPECT_NEAR(stage.operands[0].unique_bytes, rows * row, 1e-6);
    EXPECT_NEAR(stage.store_bytes_per_block * blocks, rows * row, 1e-6);
    for (std::size_t o : {1, 2}) {
      EXPECT_NEAR(stage.operands[o].bytes_per_block * blocks, tiles * fresh * row, 1e-6);
      EXPECT_NEAR(stage.operands[o].unique_bytes,
                  kv_heads * static_cast<double>(all_rows(a, c.prompts)) * row, 1e-6);
    }
    for (std::size_t o = 3; o < stage.operands.size() && a.cached > 0; ++o) {
      EXPECT_NEAR(stage.operands[o].bytes_per_block * blocks, tiles * cached * row, 1e-6);
      EXPECT_NEAR(stage.operands[o].unique_bytes, kv_heads * distinct_cached * row, 1e-6);
    }
    EXPECT_NEAR(stage.flops_per_block * blocks,
                tiles * steps * 4 * kernel.tile_m * kernel.tile_n * kernel.tile_k, 1e-3);
  }
}

std::string refusal(void (*change)(OperatorGraph&)) {
  AttentionShape a{2, 16, 4, 4, 2, 8};
  a.causal = true;
  auto graph = block_of(a, 32);
  change(graph);
  auto const made = tile(graph, {choice(OperatorKind::gemm, 8, 8), choice(OperatorKind::attention, 8, 8),
                                 choice(OperatorKind::gemm, 8, 8)});
  return made ? "accepted" : to_text(made.error());
}

TEST(FusedAttention, RefusesWhatIsNoAttention) {
  EXPECT_EQ(refusal([](OperatorGraph&) {}), "accepted");
  EXPECT_THAT(
      refusal([](OperatorGraph& g) { g.operators[1].m = 31; }),
      HasSubstr("E0152: attention is an attention, and must have 32 rows (sequences * tokens), not 31"));
  EXPECT_THAT(refusal([](OperatorGraph& g) { g.operators[1].k = 9; }),
              HasSubstr("8 depth (head size), not 9"));
  EXPECT_THAT(refusal([](OperatorGraph& g) { g.operators[1].inputs.pop_back(); }),
              HasSubstr("E0153: attention is an attention with 4 cached tokens, and reads query_heads once, "
                        "key_heads and value_heads twice each"));
  EXPECT_THAT(refusal([](OperatorGraph& g) { g.operators[1].inputs[0].pattern = ReadPattern::rows; }),
              HasSubstr("reads query_heads once"));
  EXPECT_THAT(
      refusal([](OperatorGraph& g) { std::swap(g.operators[1].inputs[1], g.operators[1].inputs[3]); }),
      HasSubstr("reads its cache \"b\" from qkv, and a cache has no producer"));
  EXPECT_THAT(
      refusal([](OperatorGraph& g) { g.operators[2].inputs[0].pattern = ReadPattern::heads_to_columns; }),
      HasSubstr("output cannot read attention, an attention, as heads_to_columns"));
  EXPECT_THAT(refusal([](OperatorGraph& g) { g.attention.window = -1; }), HasSubstr("negative"));
  EXPECT_THAT(refusal([](OperatorGraph& g) { g.attention.kv_heads = 3; }),
              HasSubstr("4 query heads do not share 3 kv heads evenly"));
}

// As many as there may be, of lengths that no tile divides: expressions stay within what is checked.
TEST(FusedAttention, SixtyFourPromptsAreWithinTheLimitsOfExpressions) {
  AttentionShape a;
  Prompts prompts;
  for (std::int64_t i = 0; i < 64; ++i) prompts.push_back(1 + (37 * i) % 400);
  shape_for(a, prompts);
  a.query_heads = 4, a.kv_heads = 2, a.head_dim = 64, a.causal = true;
  auto const pipeline = tile(block_of(a, 256, prompts), {choice(OperatorKind::gemm, 128, 128, 64),
                                                         choice(OperatorKind::attention, 128, 64, 128),
                                                         choice(OperatorKind::gemm, 128, 128, 64)});
  ASSERT_TRUE(pipeline) << to_text(pipeline.error());
  auto const depth = [](auto const& self, TileExpr const& e) -> int {
    int most = 0;
    for (auto const& one : e.arguments) most = std::max(most, self(self, one));
    return most + 1;
  };
  for (auto const& dependence : pipeline->dependences)
    for (auto const& access : dependence.accesses)
      for (auto const& range : access.ranges) {
        EXPECT_LT(depth(depth, range.begin), 40);
        EXPECT_LT(depth(depth, range.end), 40);
      }
}

TEST(FusedAttention, RefusesPromptsThatAreNone) {
  auto const refused = [](Prompts const& prompts, void (*change)(OperatorGraph&)) {
    AttentionShape a{1, 1, 0, 4, 2, 8};
    a.causal = true;
    shape_for(a, prompts);
    auto graph = block_of(a, 32, prompts);
    change(graph);
    auto const made = tile(graph, {choice(OperatorKind::gemm, 8, 8), choice(OperatorKind::attention, 8, 8),
                                   choice(OperatorKind::gemm, 8, 8)});
    return made ? "accepted" : to_text(made.error());
  };
  auto const as_it_is = [](OperatorGraph&) {};
  EXPECT_EQ(refused({5, 9, 1}, as_it_is), "accepted");
  EXPECT_THAT(refused({5, 0, 1}, as_it_is), HasSubstr("attention: a group has 0 rows"));
  EXPECT_THAT(refused({5, 9}, [](OperatorGraph& g) { g.operators[1].groups[1] = std::int64_t{1} << 40; }),
              HasSubstr("a group has 1099511627776 rows"));
  EXPECT_THAT(refused(Prompts(65, 2), as_it_is), HasSubstr("65 prompts of unequal length are more than 64"));
  EXPECT_THAT(refused({5, 9}, [](OperatorGraph& g) { g.attention.sequences = 3; }),
              HasSubstr("2 prompts of up to 9 tokens are not 3 sequences of up to 9"));
  EXPECT_THAT(refused({5, 9}, [](OperatorGraph& g) { g.attention.cached = 4; }),
              HasSubstr("have no cached tokens"));
  EXPECT_THAT(refused({5, 9}, [](OperatorGraph& g) { g.attention.causal = false; }),
              HasSubstr("are causal, and no longer than a window"));
  EXPECT_THAT(refused({5, 9}, [](OperatorGraph& g) { g.attention.window = 8; }),
              HasSubstr("are causal, and no longer than a window"));
  EXPECT_THAT(refused({5, 9}, [](OperatorGraph& g) { g.operators[1].m = 13; }),
              HasSubstr("attention: its groups have 14 rows together, and m is 13"));
  EXPECT_THAT(refused({5, 9}, [](OperatorGraph& g) { g.operators[0].m = 13; }),
              HasSubstr("14 rows (tokens of all prompts), not 13"));
  EXPECT_THAT(refused({5, 9}, [](OperatorGraph& g) { g.operators[1].inputs.pop_back(); }),
              HasSubstr("reads \"offsets\" once"));
  EXPECT_THAT(refused({5, 9}, [](OperatorGraph& g) { g.operators[1].groups.clear(); }), HasSubstr("E0152"));
  EXPECT_THAT(refused({5, 9},
                      [](OperatorGraph& g) {
                        g.operators[2].groups = {5, 9};
                      }),
              HasSubstr("they are grouped in different ways"));
}

TEST(FusedAttention, PromptsInAnotherOrderAreAnotherWorkload) {
  AttentionShape a{2, 9, 0, 4, 2, 8};
  a.causal = true;
  auto const one = workload_key(block_of(a, 32, {5, 9})), other = workload_key(block_of(a, 32, {9, 5}));
  EXPECT_NE(one, other);
  EXPECT_FALSE(same_but_rows(one, other));
}

TEST(FusedAttention, RefusesAMaskThatNothingKeeps) {
  AttentionShape a{1, 16, 0, 4, 4, 8};
  a.causal = true;
  auto graph = block_of(a, 32);
  graph.operators.resize(1);
  auto const made = tile(graph, {choice(OperatorKind::gemm, 8, 8)});
  ASSERT_FALSE(made);
  EXPECT_THAT(to_text(made.error()), HasSubstr("there is none"));
}

TEST(FusedAttention, RefusesAKernelForOtherHeads) {
  auto const graph = block_of({1, 16, 0, 4, 4, 8}, 32);
  auto const made = tile(graph, {choice(OperatorKind::gemm, 8, 8), choice(OperatorKind::attention, 8, 16),
                                 choice(OperatorKind::gemm, 8, 8)});
  ASSERT_FALSE(made);
  EXPECT_THAT(to_text(made.error()), HasSubstr("E0151: kernel k of attention is for heads of 16, not 8"));
}

TEST(FusedAttention, MasksAreDifferentWorkloads) {
  AttentionShape a{1, 16, 0, 4, 4, 8};
  auto const all = workload_key(block_of(a, 32));
  a.causal = true;
  auto const causal = workload_key(block_of(a, 32));
  a.window = 5;
  EXPECT_NE(all, causal);
  EXPECT_NE(causal, workload_key(block_of(a, 32)));
}

}  // namespace
}  // namespace tessera
