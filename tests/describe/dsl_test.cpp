// SPDX-License-Identifier: Apache-2.0
#include "tessera/describe/dsl.hpp"

#include <gmock/gmock.h>

#include <regex>

#include "tessera/describe/parse_tile_expr.hpp"
#include "tessera/describe/tile_relation.hpp"

namespace tessera {
namespace {

using testing::ElementsAre;

/// "gemm2 <- gemm1 through gemm1: (all, y)".
std::vector<std::string> texts(Pipeline const& pipeline) {
  std::vector<std::string> out;
  for (auto const& d : pipeline.dependences) {
    auto const& consumer = pipeline.stages[static_cast<std::size_t>(d.consumer)];
    auto const& producer = pipeline.stages[static_cast<std::size_t>(d.producer)];
    auto text = consumer.name + " <- " + producer.name + " through " + d.operand + ":";
    for (auto const& access : d.accesses) {
      text += " (";
      for (std::size_t i = 0; i < access.ranges.size(); ++i)
        text += (i > 0 ? ", " : "") +
                to_text(access.ranges[i], consumer.dimension_names(), producer.grid[i].extent);
      text += ")";
    }
    out.push_back(text);
  }
  return out;
}

std::vector<std::string> described(PipelineBuilder const& builder) {
  auto const pipeline = builder.build();
  return pipeline ? texts(*pipeline) : std::vector<std::string>{to_text(pipeline.error())};
}

/// The paper's figure 5 (a): GPT-3 MLP, 256 rows, H = 12288, 256 x 256 tiles.
TEST(Dsl, gpt3_mlp) {
  PipelineBuilder mlp("mlp");
  auto [x, y] = mlp.dims("x", "y");
  auto gemm1 = mlp.stage("gemm1", {x = 24, y = 1});
  auto gemm2 = mlp.stage("gemm2", {x = 48, y = 1});
  mlp.depends(gemm2(x, y), gemm1(all(x), y));
  EXPECT_THAT(described(mlp), ElementsAre("gemm2 <- gemm1 through gemm1: (all, y)"));
}

/// Figure 5 (b): attention. P reads tiles of Q and K at a stride (StridedSync), R a row of P, T a tile of R
/// and one of V. Grids for 512 tokens, tiles of 128, H/8 = 1536 columns: 12 tiles each of Q, K and V.
TEST(Dsl, attention_with_strided_sync) {
  PipelineBuilder attention("attention");
  auto [x, y] = attention.dims("x", "y");
  auto const width = 12;
  auto qkv = attention.stage("qkv", {x = 3 * width, y = 4});
  auto p = attention.stage("p", {x = width, y = 4});
  auto r = attention.stage("r", {x = width, y = 4});
  auto t = attention.stage("t", {x = width, y = 4});
  auto gemm2 = attention.stage("gemm2", {x = 96, y = 4});
  attention.depends(p(x, y), qkv(x, y), qkv(x + width, y));
  attention.depends(r(x, y), p(all(x), y));
  attention.depends(t(x, y), r(x, y), qkv(x + 2 * width, y));
  attention.depends(gemm2(x, y), t(all(x), y)).through("a");
  EXPECT_THAT(described(attention),
              ElementsAre("p <- qkv through qkv: (x, y) (x + 12, y)", "r <- p through p: (all, y)",
                          "t <- r through r: (x, y)", "t <- qkv through qkv: (x + 24, y)",
                          "gemm2 <- t through a: (all, y)"));
  auto const pipeline = attention.build();
  TileRelation const relation(*pipeline, pipeline->dependences[0]);
  std::vector<std::int64_t> tiles;
  relation.producers_of(5 + 12 * 2, tiles);
  EXPECT_THAT(tiles, ElementsAre(5 + 36 * 2, 17 + 36 * 2));
}

/// Figure 5 (c): two convolutions as implicit GEMMs. The consumer's k slices are R*S channels' tiles each.
TEST(Dsl, two_convolutions) {
  PipelineBuilder conv("conv");
  auto [x, y] = conv.dims("x", "y");
  auto conv1 = conv.stage("conv1", {x = 2, y = 49});
  auto conv2 = conv.stage("conv2", {x = 2, y = 49});
  conv.depends(conv2(x, y), conv1(floor(x / (3 * 3)), y));
  EXPECT_THAT(described(conv), ElementsAre("conv2 <- conv1 through conv1: (floor((x)/9), y)"));
}

/// The LLaMA MLP: gate and up side by side, SwiGLU fused into the second GEMM.
TEST(Dsl, llama_mlp_with_swiglu) {
  PipelineBuilder mlp("mlp");
  auto [x, y] = mlp.dims("x", "y");
  auto const half = 11;
  auto gate_up = mlp.stage("gate_up", {x = 2 * half, y = 3}).splits(2);
  auto down = mlp.stage("down", {x = 32, y = 3}).reads("b", "w2", 65536, 1e6).output("out");
  mlp.depends(down(x, y), gate_up(range(0, half), y), gate_up(range(half, 2 * half), y)).through("a");
  EXPECT_THAT(described(mlp), ElementsAre("down <- gate_up through a: (0 : 11, y) (11 : 22, y)"));
  auto const pipeline = mlp.build();
  EXPECT_EQ(pipeline->stages[0].blocks(), 2 * 22 * 3);
  EXPECT_THAT(pipeline->stages[1].operands,
              ElementsAre(Operand{"b", "w2", 65536, 1e6}, Operand{"a", "gate_up", 0, 0}));
}

TEST(Dsl, halos_and_other_names_for_the_consumers_dimensions) {
  PipelineBuilder stencil("stencil");
  auto [x, y, i, j] = stencil.dims("x", "y", "i", "j");
  auto first = stencil.stage("first", {x = 8, y = 8});
  auto second = stencil.stage("second", {x = 8, y = 8});
  stencil.depends(second(i, j), first(clamp(range(i - 1, i + 2)), min(max(j - 1, 0), 7) % 8));
  EXPECT_THAT(
      described(stencil),
      ElementsAre("second <- first through first: (clamp(x - 1 : x + 2), ((min(max(y - 1, 0), 7)) mod 8))"));
}

TEST(Dsl, keeps_the_users_lines) {
  PipelineBuilder p("p");
  auto [x] = p.dims("x");
  auto a = p.stage("a", {x = 2});
  auto b = p.stage("b", {x = 2});
  int const stage_line = __LINE__ - 1;
  p.depends(b(x), a(x));
  int const depends_line = __LINE__ - 1;
  auto const pipeline = p.build();
  ASSERT_TRUE(pipeline);
  EXPECT_EQ(pipeline->stages[1].where.line, stage_line);
  EXPECT_EQ(pipeline->dependences[0].where.line, depends_line);
  EXPECT_THAT(pipeline->dependences[0].where.file, testing::EndsWith("dsl_test.cpp"));
}

/// The refusal with this file's name and lines taken out.
std::string refusal(PipelineBuilder const& builder) {
  auto const pipeline = builder.build();
  if (pipeline) return "accepted";
  return std::regex_replace(to_text(pipeline.error()), std::regex("[^ \n]*dsl_test.cpp:\\d+: error "), "");
}

struct Mistakes : testing::Test {
  PipelineBuilder p{"p"};
  Dim x = p.dim("x"), y = p.dim("y"), z = p.dim("z");
  StageHandle a = p.stage("a", {x = 24, y = 4});
  StageHandle b = p.stage("b", {x = 48, y = 4});
};

TEST_F(Mistakes, wrong_rank) {
  p.depends(b(x, y), a(x));
  p.depends(b(x, y, z), a(x, y));
  EXPECT_EQ(refusal(p),
            "E0132: a has 2 dimensions, but 1 coordinate is given\n   hint: write a(x, y)\n"
            "E0132: b has 2 dimensions, but 3 coordinates are given\n   hint: write b(x, y)");
}

TEST_F(Mistakes, consumer_that_is_not_plain) {
  p.depends(b(x + 1, y), a(x, y));
  p.depends(b(all(x), y), a(x, y));
  p.depends(b(x, x), a(x, x));
  EXPECT_EQ(refusal(p),
            "E0133: coordinate 1 of the consumer b is not a plain dimension of this pipeline\n"
            "   a dependence says what any one tile of the consumer reads\n"
            "   hint: write b(x, y), and expressions in the producer\n"
            "E0133: coordinate 1 of the consumer b is not a plain dimension of this pipeline\n"
            "   a dependence says what any one tile of the consumer reads\n"
            "   hint: write b(x, y), and expressions in the producer\n"
            "E0133: the consumer b has dimension x twice\n   hint: write b(x, y)");
}

TEST_F(Mistakes, dimension_that_the_consumer_lacks) {
  p.depends(b(x, y), a(z, y));
  EXPECT_EQ(refusal(p),
            "E0134: dimension z is not one of the consumer's, b(x, y)\n"
            "   hint: use range() or all() for producer tiles that no consumer dimension selects");
}

TEST_F(Mistakes, foreign_dimension) {
  PipelineBuilder q("q");
  auto [u] = q.dims("u");
  p.depends(b(x, y), a(u, y));
  p.depends(b(x, y), a(x + u, y));
  p.stage("c", {u = 4});
  EXPECT_EQ(refusal(p),
            "E0134: a dependence uses a dimension of another pipeline\n"
            "E0134: an expression mixes dimensions of two pipelines\n"
            "E0134: the grid of c uses a dimension that is not one of this pipeline's\n"
            "   hint: write {x = 24, y = 4} with the dimensions that dims() returned");
}

TEST_F(Mistakes, foreign_stage) {
  PipelineBuilder q("q");
  auto [u] = q.dims("u");
  auto c = q.stage("c", {u = 4});
  p.depends(b(x, y), c(x));
  EXPECT_EQ(refusal(p), "E0136: a dependence names a stage of another pipeline");
}

TEST_F(Mistakes, all_of_the_wrong_dimension) {
  p.depends(b(x, y), a(all(y), y));
  EXPECT_EQ(refusal(p), "E0134: all() stands for dimension x of a, but names another\n   hint: write all(x)");
}

TEST_F(Mistakes, division_by_zero) {
  p.depends(b(x, y), a(x / 0, y));
  p.depends(b(x, y), a(x, y % -4));
  EXPECT_EQ(refusal(p),
            "E0135: division by 0: only by a constant of 1 or more\n"
            "E0135: modulo by -4: only by a constant of 1 or more");
}

TEST_F(Mistakes, expressions_that_are_not_affine_or_too_large) {
  p.depends(b(x, y), a(x * y, y));
  p.depends(b(x, y), a(x * 2147483648 * 2, y));
  p.depends(b(x, y), a(x + 99999999999, y));
  EXPECT_EQ(refusal(p),
            "E0135: a product of two dimensions is not affine: one side must be a constant\n"
            "E0135: an expression can leave 64-bit arithmetic\n"
            "E0135: the constant 99999999999 is too large for a tile expression");
}

TEST_F(Mistakes, producer_and_consumer_swapped) {
  p.depends(a(x, y), b(x, y));
  p.depends(a(x, y), a(x, y));
  EXPECT_EQ(refusal(p),
            "E0136: a cannot wait for b, which is declared after it\n"
            "   stages run in the order in which they are declared; the consumer comes first in depends()\n"
            "   hint: did you mean depends(b(...), a(...))?\n"
            "E0136: a cannot depend on itself\n"
            "   stages run in the order in which they are declared; the consumer comes first in depends()\n"
            "   hint: what it computed an iteration before is earlier(a(...)); a distance of 0 is the same "
            "iteration");
}

TEST_F(Mistakes, nothing_to_depend_on) {
  p.depends(b(x, y));
  EXPECT_EQ(refusal(p), "E0136: b depends on nothing here");
}

TEST_F(Mistakes, names) {
  p.stage("a", {x = 2});
  p.stage("2b", {x = 2});
  p.dim("x");
  p.dim("all");
  EXPECT_EQ(std::regex_replace(refusal(p), std::regex("line \\d+"), "line N"),
            "E0131: two stages are named a\n   the first is at line N\n"
            "E0131: \"2b\" cannot name a stage\n   hint: use a C++ identifier\n"
            "E0131: dimension \"x\" is declared twice\n"
            "   hint: stages may share a dimension: declare it once\n"
            "E0131: \"all\" cannot name a dimension\n"
            "   hint: use a C++ identifier other than all, clamp, floor, max, min and mod");
}

TEST_F(Mistakes, grids) {
  p.stage("c", {});
  p.stage("d", {x = 0});
  p.stage("e", {x = 2, x = 3});
  EXPECT_EQ(refusal(p),
            "E0130: c has 0 dimensions: a grid has 1 to 4\n"
            "E0130: d has 0 tiles along x: between 1 and 2147483647 are possible\n"
            "E0130: the grid of e has dimension x twice");
}

TEST_F(Mistakes, operands_and_costs) {
  b.reads("a", "x").reads("a", "w").splits(0).cost({-1.0, 0, 1, 2}).resources({0, 64, 0});
  p.depends(b(x, y), a(x, y)).through("a");
  EXPECT_EQ(refusal(p),
            "E0137: operand \"a\" of b reads buffer \"x\", but the dependence brings \"a\"\n"
            "   hint: declare it as reads(\"a\", \"a\"), or name another operand in through()\n"
            "E0137: two operands of b are named \"a\"\n"
            "E0137: b has 0 splits, 1 k steps and 2 pipeline stages: each must be 1 or more\n"
            "E0137: a cost of b is negative or not finite\n"
            "E0137: b cannot have 0 threads, 64 registers per thread and 0 bytes of shared memory");
}

/// A binding brings lines of its own, and hints in its language.
TEST(Dsl, lines_and_hints_of_another_language) {
  PipelineBuilder p("p", SourceLine{"p.py", 1}, HostLanguage::python);
  auto const x = p.dim("x", SourceLine{"p.py", 2});
  auto const a = p.stage("a", std::vector{x = 4}, SourceLine{"p.py", 3});
  auto const b = p.stage("b", std::vector{x = 4}, SourceLine{"p.py", 4});
  p.depends_on({a(x), SourceLine{"p.py", 5}}, {b(x)});
  p.depends_on({b(x, x), SourceLine{"p.py", 6}}, {a(x)});
  auto const pipeline = p.build();
  ASSERT_FALSE(pipeline);
  EXPECT_EQ(to_text(pipeline.error()),
            "p.py:5: error E0136: a cannot wait for b, which is declared after it\n"
            "   stages run in the order in which they are declared; the consumer comes first\n"
            "   hint: did you mean b[...].reads(a[...])?\n"
            "p.py:6: error E0132: b has 1 dimension, but 2 coordinates are given\n"
            "   hint: write b[x]");
}

TEST(Dsl, an_empty_pipeline_is_refused) {
  EXPECT_EQ(refusal(PipelineBuilder("nothing")), "E0130: pipeline \"nothing\" has no stages");
}

}  // namespace
}  // namespace tessera
