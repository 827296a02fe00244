// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tessera/describe/dsl.hpp"
#include "tessera/describe/workload_json.hpp"
#include "tessera/shipped.hpp"

namespace tessera {
namespace {

Loop jacobi() {
  for (auto const& file : shipped_workloads())
    if (file.name == "jacobi") return std::get<Loop>(parse_workload(file.text, "jacobi.json").value());
  return {};
}

TEST(Loop, IterationsTakeTurnsAtTheCopies) {
  auto const three = unroll(jacobi(), 3);
  ASSERT_EQ(three.stages.size(), 3u);
  EXPECT_EQ(three.name, "jacobi, 3 iterations");
  for (int n = 0; n < 3; ++n) {
    auto const& step = three.stages[static_cast<std::size_t>(n)];
    EXPECT_EQ(step.name, "step_" + std::to_string(n));
    EXPECT_EQ(step.output, n % 2 == 0 ? "u#0" : "u#1");
    EXPECT_EQ(step.operands[0].buffer, n % 2 == 0 ? "u#1" : "u#0");
  }
  // The first one reads what is there before the loop.
  ASSERT_EQ(three.dependences.size(), 2u);
  EXPECT_EQ(three.dependences[0].consumer, 1);
  EXPECT_EQ(three.dependences[0].producer, 0);
  EXPECT_EQ(three.dependences[1].consumer, 2);
  EXPECT_EQ(three.dependences[1].producer, 1);
}

TEST(Loop, AnIterationHasItsOwnWeights) {
  auto loop = jacobi();
  loop.body.stages[0].operands.push_back({"w", "weights", 0, 0});
  loop.copies.push_back({"weights", BufferCopies::each_iteration});
  loop.body.buffers = {{"u", 8, 8, 1, "fp32"}, {"weights", 2, 2, 1, "fp32"}};
  auto const two = unroll(loop, 2);
  EXPECT_EQ(two.stages[0].operands[1].buffer, "weights#0");
  EXPECT_EQ(two.stages[1].operands[1].buffer, "weights#1");
  std::vector<std::string> names;
  for (auto const& buffer : two.buffers) names.push_back(buffer.name);
  EXPECT_EQ(names, (std::vector<std::string>{"u#0", "u#1", "weights#0", "weights#1"}));
}

TEST(Loop, SurvivesAFile) {
  auto loop = jacobi();
  loop.body.stages[0].operands.push_back({"w", "weights", 0, 0});
  loop.copies.push_back({"weights", BufferCopies::each_iteration});
  auto const text = print_workload(loop);
  auto const again = parse_workload(text, "again.json");
  ASSERT_TRUE(again) << to_text(again.error());
  EXPECT_EQ(print_workload(*again), text);
  EXPECT_EQ(std::get<Loop>(*again).copies, loop.copies);
  EXPECT_EQ(std::get<Loop>(*again).carried[0].distance, 1);
}

TEST(Loop, ADistanceIsNoPartOfAPipeline) {
  auto const workload = parse_workload(R"({"schema": "tessera.workload/1", "name": "p",
  "stages": [{"name": "a", "grid": {"x": 2}}, {"name": "b", "grid": {"x": 2},
    "operands": [{"name": "a", "buffer": "a"}]}],
  "dependences": [{"consumer": "b", "producer": "a", "operand": "a", "distance": 1, "accesses": [["x"]]}]})",
                                       "p.json");
  ASSERT_FALSE(workload);
  EXPECT_EQ(to_text(workload.error()),
            "p.json:4: error E0204: unknown member \"distance\" in a dependence\n"
            "   it counts iterations, and nothing says that this pipeline is repeated\n"
            "   hint: a workload is a loop with \"loop\": {} beside \"stages\"");
}

TEST(Loop, IsDescribedInCpp) {
  PipelineBuilder stencil("stencil");
  auto [x, y] = stencil.dims("x", "y");
  auto step = stencil.stage("step", {x = 16, y = 64});
  auto const line = __LINE__ + 1;
  stencil.depends(step(x, y), earlier(step(clamp(range(x - 1, x + 2)), y)), earlier(step(x, clamp(y - 1))))
      .through("before");
  auto norm = stencil.stage("norm", {y = 64}).reads("w", "weights");
  stencil.depends(norm(y), step(all(x), y), earlier(norm(y), 2)).through("a");
  stencil.copies("step", 2);
  stencil.each_iteration("weights");
  auto const loop = stencil.build_loop();
  ASSERT_FALSE(loop);  // "a" would be two buffers
  EXPECT_EQ(loop.error().front().code, "E0137");
  auto const pipeline = stencil.build();
  ASSERT_FALSE(pipeline);

  PipelineBuilder good("good");
  auto [u, v] = good.dims("u", "v");
  auto one = good.stage("one", {u = 16, v = 64});
  good.depends(one(u, v), earlier(one(clamp(range(u - 1, u + 2)), v)), earlier(one(u, clamp(v))))
      .through("before");
  auto two = good.stage("two", {v = 64});
  good.depends(two(v), one(all(u), v));
  good.depends(two(v), earlier(two(v), 2)).through("old");
  good.copies("one", 2);
  good.each_iteration("two");
  auto const made = good.build_loop();
  ASSERT_TRUE(made) << to_text(made.error());
  EXPECT_EQ(made->body.dependences.size(), 1u);
  ASSERT_EQ(made->carried.size(), 2u);
  EXPECT_EQ(made->carried[0].distance, 1);
  EXPECT_EQ(made->carried[0].dependence.accesses.size(), 2u);
  EXPECT_EQ(made->carried[0].dependence.operand, "before");
  EXPECT_EQ(made->carried[1].distance, 2);
  EXPECT_EQ(made->copies, (std::vector<BufferCopies>{{"one", 2}, {"two", BufferCopies::each_iteration}}));
  auto const refused = good.build();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().front().code, "E0139");
  EXPECT_GT(refused.error().front().where.line, line);
  good.depends(two(v), earlier(one(0, v), -1));
  EXPECT_EQ(good.build_loop().error().front().message, "earlier(one(...), -1) lies ahead");
}

TEST(LoopBuilder, EarlierByNoIterationsIsTheSameOne) {
  auto const of = [](bool by_earlier) {
    PipelineBuilder builder("two");
    auto [u] = builder.dims("u");
    auto one = builder.stage("one", {u = 4});
    auto two = builder.stage("two", {u = 4});
    builder.depends(two(u), by_earlier ? earlier(one(u), 0) : one(u)).through("a");
    return builder.build_loop();
  };
  auto plain = of(false), same = of(true);
  ASSERT_TRUE(plain && same);
  EXPECT_TRUE(same->carried.empty());
  ASSERT_EQ(same->body.dependences.size(), 1u);
  EXPECT_EQ(same->body.dependences[0].accesses, plain->body.dependences[0].accesses);
  EXPECT_EQ(same->body.dependences[0].producer, plain->body.dependences[0].producer);
}

}  // namespace
}  // namespace tessera
