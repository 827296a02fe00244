// SPDX-License-Identifier: Apache-2.0
// One new token of each sequence behind cached ones, and products of few rows: which kernels are for them,
// what they read and cost, and what is refused.
#include <gmock/gmock.h>

#include "tessera/describe/tile_relation.hpp"
#include "tessera/describe/workload.hpp"
#include "tessera/shipped_kernels.hpp"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// A QKV product, attention behind `cached` tokens, and an output product.
OperatorGraph step(std::int64_t sequences, std::int64_t cached, AttentionShape a = {}) {
  a.sequences = sequences, a.cached = cached, a.tokens = 1;
  if (a.query_heads == 1) a.query_heads = 8, a.kv_heads = 2, a.head_dim = 64;
  OperatorGraph graph;
  graph.name = "step";
  graph.attention = a;
  auto const width = a.query_heads * a.head_dim, features = width + 2 * a.kv_heads * a.head_dim;
  Operator qkv{"qkv",
               OperatorKind::gemm,
               Epilogue::none,
               sequences,
               features,
               512,
               1,
               {{"a", "x", "", {}}, {"b", "w", "", {}}},
               "",
               {}};
  Operator attention{"attention",
                     OperatorKind::attention,
                     Epilogue::none,
                     sequences,
                     width,
                     a.head_dim,
                     1,
                     {{"a", "qkv", "qkv", ReadPattern::query_heads},
                      {"b", "qkv", "qkv", ReadPattern::key_heads},
                      {"c", "qkv", "qkv", ReadPattern::value_heads},
                      {"b_cached", "k_cache", "", ReadPattern::key_heads},
                      {"c_cached", "v_cache", "", ReadPattern::value_heads},
                      {"lengths", "lengths", "", ReadPattern::rows}},
                     "",
                     {}};
  Operator output{"output",
                  OperatorKind::gemm,
                  Epilogue::none,
                  sequences,
                  512,
                  width,
                  1,
                  {{"a", "attention", "attention", ReadPattern::rows}, {"b", "w_output", "", {}}},
                  "",
                  {}};
  graph.operators = {qkv, attention, output};
  return graph;
}

std::vector<std::string> families_for(OperatorGraph const& graph, std::size_t index) {
  std::vector<std::string> names;
  for (auto const& kernel : shipped_kernels().kernels())
    if (computes(kernel, graph, graph.operators[index])) names.push_back(kernel.name);
  return names;
}

std::vector<TileChoice> choices(char const* product, char const* attention) {
  auto const named = [](char const* name) { return TileChoice{*shipped_kernels().find(name), 1}; };
  return {named(product), named(attention), named(product)};
}

std::string refusal(OperatorGraph const& graph, std::vector<TileChoice> const& with) {
  auto const made = tile(graph, with);
  return made ? "accepted" : to_text(made.error());
}

TEST(Generation, HasKernelsOfItsOwn) {
  EXPECT_TRUE(generates(step(4, 100)));
  EXPECT_THAT(families_for(step(4, 100), 1), ElementsAre("cached_attention_64", "attention_64"));
  EXPECT_THAT(families_for(step(4, 0), 1), ElementsAre("attention_64"));
  auto two = step(4, 100);
  two.attention.tokens = 2;
  EXPECT_FALSE(generates(two));
  EXPECT_THAT(families_for(two, 1), ElementsAre("attention_64"));
  AttentionShape many;
  many.query_heads = 18, many.kv_heads = 2, many.head_dim = 128;
  EXPECT_THAT(families_for(step(4, 100, many), 1), testing::Not(testing::Contains("cached_attention_128")));
  auto alone = step(4, 100);
  alone.operators.resize(1);
  EXPECT_FALSE(generates(alone));
}

TEST(Generation, ProductsAreForFewRows) {
  auto const skinny = [](std::int64_t m, std::int64_t n, std::int64_t k, Epilogue epilogue = Epilogue::none) {
    OperatorGraph graph;
    graph.operators = {{"d", OperatorKind::gemm, epilogue, m, n, k, 1, {}, "", {}}};
    auto names = families_for(graph, 0);
    std::erase_if(names, [](std::string const& name) { return name.rfind("skinny_gemm", 0) != 0; });
    return names;
  };
  EXPECT_THAT(skinny(1, 512, 512), ElementsAre("skinny_gemm_16"));
  EXPECT_THAT(skinny(16, 512, 512), ElementsAre("skinny_gemm_16"));
  EXPECT_THAT(skinny(17, 512, 512, Epilogue::swiglu), ElementsAre("skinny_gemm_32"));
  EXPECT_THAT(skinny(64, 512, 512, Epilogue::residual), ElementsAre("skinny_gemm_64"));
  EXPECT_THAT(skinny(65, 512, 512), IsEmpty());
  EXPECT_THAT(skinny(1, 508, 512), IsEmpty());
  EXPECT_THAT(skinny(1, 512, 500), IsEmpty());
  EXPECT_THAT(skinny(1, 512, 512, Epilogue::geglu), IsEmpty());
}

// Weights are read before anything is waited for: what another operator makes is none. Nor are batches and
// groups.
TEST(Generation, ProductsHaveWeightsFromOutside) {
  auto const has = [](OperatorGraph const& graph, std::size_t index) {
    auto const names = families_for(graph, index);
    return std::find(names.begin(), names.end(), "skinny_gemm_16") != names.end();
  };
  auto graph = step(4, 100);
  EXPECT_TRUE(has(graph, 2));
  auto merge = graph.operators[2];
  merge.name = "merge";
  graph.operators.insert(graph.operators.begin() + 2, merge);
  graph.operators[3].inputs[1] = {"b", "merge", "merge", ReadPattern::rows};
  EXPECT_TRUE(has(graph, 2));
  EXPECT_FALSE(has(graph, 3));
  auto with = choices("skinny_gemm_16", "cached_attention_64");
  with.push_back(with.back());
  EXPECT_THAT(refusal(graph, with),
              HasSubstr("kernel skinny_gemm_16 of output reads \"b\" before it waits, and merge makes that"));
  graph = step(4, 100);
  graph.operators[2].batch = 2;
  EXPECT_FALSE(has(graph, 2));
  graph = step(4, 100);
  graph.operators[2].groups = {2, 2};
  EXPECT_FALSE(has(graph, 2));
}

// Bytes by hand: 4 sequences, 8 query and 2 key heads of 64, 100 cached tokens; 2 bytes an element.
TEST(Generation, IsOneTileOfAllSequencesAndHeads) {
  auto const pipeline = tile(step(4, 100), choices("skinny_gemm_16", "cached_attention_64"));
  ASSERT_TRUE(pipeline) << to_text(pipeline.error());
  auto const& stage = pipeline->stages[1];
  EXPECT_EQ(stage.tiles(), 1);
  EXPECT_EQ(stage.efficiency, 1);
  EXPECT_GT(stage.fixed_ns, 0);
  std::vector<double> bytes;
  for (auto const& operand : stage.operands) {
    bytes.push_back(operand.bytes_per_block);
    EXPECT_EQ(operand.unique_bytes, operand.bytes_per_block) << operand.name;
  }
  double const queries = 4 * 8 * 64 * 2, fresh = 4 * 2 * 64 * 2, cached = 100 * fresh;
  EXPECT_THAT(bytes, ElementsAre(queries, fresh, fresh, cached, cached, 16));
  EXPECT_EQ(stage.flops_per_block, 4.0 * 4 * 8 * 64 * 101);
  EXPECT_EQ(stage.store_bytes_per_block, queries);
  auto const buffer = [&](std::string const& name) {
    for (auto const& one : pipeline->buffers)
      if (one.name == name) return one;
    return Buffer{};
  };
  EXPECT_EQ(buffer("k_cache"), (Buffer{"k_cache", 101, 64, 8, "bf16"}));
  EXPECT_EQ(buffer("v_cache"), (Buffer{"v_cache", 101, 64, 8, "bf16"}));
  EXPECT_EQ(buffer("lengths"), (Buffer{"lengths", 1, 4, 1, "int32"}));
}

TEST(Generation, SeesNoMoreThanAWindow) {
  auto graph = step(4, 100);
  graph.attention.window = 40;
  auto const pipeline = tile(graph, choices("skinny_gemm_16", "cached_attention_64"));
  ASSERT_TRUE(pipeline) << to_text(pipeline.error());
  EXPECT_EQ(pipeline->stages[1].operands[3].bytes_per_block, 39 * 4 * 2 * 64 * 2);
  EXPECT_EQ(pipeline->stages[1].flops_per_block, 4.0 * 4 * 8 * 64 * 40);
}

// Of a product cut into tiles, each of queries, keys and values reads those that have its columns, of all
// rows.
TEST(Generation, ReadsTheTilesThatItsHeadsAreIn) {
  auto const pipeline = tile(step(4, 100), choices("gemm_64x128x64_1x1", "cached_attention_64"));
  ASSERT_TRUE(pipeline) << to_text(pipeline.error());
  auto const& from = pipeline->stages[0].grid;
  EXPECT_EQ(from[0].extent, 6);  // 768 columns: 512 of queries, 128 of keys, 128 of values
  std::vector<std::vector<int>> columns;
  for (auto const& dependence : pipeline->dependences) {
    if (dependence.consumer != 1) continue;
    std::vector<TileRelation::Box> boxes;
    TileRelation(*pipeline, dependence).boxes_of(0, boxes);
    ASSERT_EQ(boxes.size(), 1u);
    columns.push_back({static_cast<int>(boxes[0].begin[0]), static_cast<int>(boxes[0].end[0]),
                       static_cast<int>(boxes[0].begin[1]), static_cast<int>(boxes[0].end[1])});
  }
  EXPECT_THAT(columns,
              ElementsAre(ElementsAre(0, 4, 0, 1), ElementsAre(4, 5, 0, 1), ElementsAre(5, 6, 0, 1)));
}

TEST(Generation, RefusesWhatItsKernelsCannot) {
  EXPECT_EQ(refusal(step(4, 100), choices("skinny_gemm_16", "cached_attention_64")), "accepted");
  auto graph = step(4, 100);
  graph.attention.tokens = 2, graph.attention.sequences = 2;
  graph.operators[1].inputs.pop_back();
  EXPECT_THAT(refusal(graph, choices("skinny_gemm_16", "cached_attention_64")),
              HasSubstr("E0151: kernel cached_attention_64 of attention is for one new token behind cached "
                        "ones, not 2 behind 100"));
  EXPECT_THAT(
      refusal(step(17, 100), choices("skinny_gemm_16", "cached_attention_64")),
      HasSubstr("E0151: kernel skinny_gemm_16 of qkv is for 1 to 16 rows, and columns and a depth that "
                "are multiples of 8 and 64, not 17 x 768 x 512"));
  AttentionShape many;
  many.query_heads = 18, many.kv_heads = 2, many.head_dim = 64;
  EXPECT_THAT(refusal(step(4, 100, many), choices("skinny_gemm_16", "cached_attention_64")),
              HasSubstr("E0151: kernel cached_attention_64 of attention is for up to 8 query heads to a key "
                        "head, not 9"));
  EXPECT_THAT(refusal(step(4, 100), choices("skinny_gemm_16", "cached_attention_128")),
              HasSubstr("E0151: kernel cached_attention_128 of attention is for heads of 128, not 64"));
}

TEST(Generation, RefusesLengthsOfPrompts) {
  auto const with = choices("gemm_64x128x64_1x1", "attention_64");
  auto graph = step(4, 100);
  graph.attention.tokens = 2, graph.attention.sequences = 2;
  EXPECT_THAT(
      refusal(graph, with),
      HasSubstr(
          "E0153: attention reads \"lengths\" in vain: an attention of one new token behind cached ones "
          "does, once"));
  graph = step(4, 100);
  graph.operators[1].inputs.push_back(graph.operators[1].inputs.back());
  EXPECT_THAT(refusal(graph, with), HasSubstr("E0153: attention reads \"lengths\" several times"));
  graph = step(4, 100);
  auto& lengths = graph.operators[1].inputs.back();
  lengths.producer = lengths.buffer = "qkv";
  EXPECT_THAT(refusal(graph, with), HasSubstr("reads \"lengths\" from qkv, and it comes from outside"));
  graph = step(4, 100);
  graph.operators[1].inputs.pop_back();  // all are as long as the cache has room for
  EXPECT_EQ(refusal(graph, with), "accepted");
  graph.operators[1].inputs[4].buffer = "k_cache";
  EXPECT_THAT(refusal(graph, with),
              HasSubstr("E0153: attention reads \"k_cache\" as both its cached keys and values"));
}

}  // namespace
}  // namespace tessera
