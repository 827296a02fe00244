// SPDX-License-Identifier: Apache-2.0
// What is compiled is what problems are promised, and what a launch refuses before it reaches a GPU.
#include <gmock/gmock.h>

#include <set>

#include "kernels/attention_sm90/attention.hpp"
#include "kernels/attention_sm90/catalogue.hpp"

namespace tessera::attention_sm90 {
namespace {

using testing::HasSubstr;

Problem problem_of(int head_size, ElementType type, float drop) {
  Problem p;
  p.type = type;
  p.heads = 4;
  p.head_size = head_size;
  p.query_rows = 256;
  p.drop = drop;
  return p;
}

TEST(AttentionKernels, ThereIsOneForEachProblemThatIsNotRefused) {
  std::set<std::string> names;
  for (int const head_size : {64, 80, 96, 128, 256})
    for (auto const type : {ElementType::bf16, ElementType::fp16})
      for (float const drop : {0.0f, 0.5f}) {
        auto const p = problem_of(head_size, type, drop);
        if (!check(p)) continue;
        for (int const queries : tile_choices(p)) {
          auto const kernel = kernel_for(p, queries);
          ASSERT_TRUE(kernel) << to_text(kernel.error());
          names.insert(kernel->name);
          EXPECT_EQ(kernel->tile_queries, queries);
          EXPECT_EQ(kernel->type, type);
          EXPECT_EQ(kernel->drops, drop > 0);
          EXPECT_GE(kernel->head_size, head_size);
          EXPECT_EQ(kernel->head_size, compiled_head_size(head_size, drop > 0));
          EXPECT_EQ(kernel->threads, 128 * (1 + queries / 64));
          EXPECT_LE(kernel->shared_bytes, 227 * 1024);
          if (queries == k_usual_queries) {
            EXPECT_EQ(kernel->tile_queries, tile_size(head_size).queries);
            EXPECT_EQ(kernel->tile_keys, tile_size(head_size).keys);
            EXPECT_STREQ(kernel_for(p)->name, kernel->name);
          }
        }
      }
  // Five sizes in two types, two with dropout, two more tiles: none is compiled for nothing.
  EXPECT_EQ(names.size(), 14U);
}

TEST(AttentionKernels, OtherTilesAreRefusedByNumber) {
  auto const kernel = kernel_for(problem_of(64, ElementType::bf16, 0), 192);
  ASSERT_FALSE(kernel);
  EXPECT_EQ(kernel.error().front().code, "E0590");
  EXPECT_THAT(to_text(kernel.error()), HasSubstr("heads of 64 in tiles of 192 queries"));
}

std::string said(Call const& call) {
  auto const launched = launch(call, nullptr);
  return launched ? "launched" : to_text(launched.error());
}

TEST(AttentionKernels, ArraysAndStagesThatDoNotFitAreRefusedByName) {
  alignas(16) static unsigned short memory[64];
  Call call;
  call.problem = problem_of(128, ElementType::bf16, 0);
  call.q = call.k = call.v = call.out = memory;
  auto missing = call;
  missing.v = nullptr;
  EXPECT_THAT(said(missing), AllOf(HasSubstr("E0590"), HasSubstr("v is nowhere")));
  auto crooked = call;
  crooked.k = memory + 4;
  EXPECT_THAT(said(crooked), AllOf(HasSubstr("k at "), HasSubstr("not 16-byte aligned")));
  auto staged = call;
  staged.stage.grid.rank = 2;
  staged.stage.grid.extent[0] = 4;
  staged.stage.grid.extent[1] = 3;
  EXPECT_THAT(said(staged), HasSubstr("the stage has 4 x 3 tiles, the problem 4 heads x 2 blocks"));
  staged.stage.grid.extent[1] = 2;
  auto persistent = staged;
  persistent.stage.persistent_blocks = 132;
  EXPECT_THAT(said(persistent), HasSubstr("a persistent grid or splits"));
  auto waiting = staged;
  waiting.stage.before_stores = 1;
  EXPECT_THAT(said(waiting), HasSubstr("the stage waits without a deadline"));
  auto posting = staged;
  posting.stage.posts = 1;
  EXPECT_THAT(said(posting), HasSubstr("the stage waits or posts without the plan's memory"));
}

// What planners take for the kernels is what they are.
TEST(AttentionKernels, TheCatalogueSaysWhatIsCompiled) {
  std::set<std::string> said;
  for (auto const& kernel : catalogue())
    for (auto const type : kernel.forms.at(0).types) {
      bool const half = type == tessera::ElementType::fp16;
      auto const compiled = kernel_for(
          problem_of(kernel.tile_n, half ? ElementType::fp16 : ElementType::bf16, 0), kernel.tile_m);
      ASSERT_TRUE(compiled) << kernel.name << "\n" << to_text(compiled.error());
      EXPECT_EQ(kernel.name + (half ? "_fp16" : ""), compiled->name);
      EXPECT_EQ(kernel.tile_m, compiled->tile_queries) << kernel.name;
      EXPECT_EQ(kernel.tile_n, compiled->head_size) << kernel.name;
      EXPECT_EQ(kernel.tile_k, compiled->tile_keys) << kernel.name;
      auto const& form = kernel.forms.at(0);
      EXPECT_EQ(form.pipeline_stages, compiled->stages) << kernel.name;
      EXPECT_EQ(form.resources.threads, compiled->threads) << kernel.name;
      EXPECT_EQ(form.resources.shared_bytes, compiled->shared_bytes) << kernel.name;
      EXPECT_GE(form.resources.registers_per_thread, compiled->registers) << kernel.name;
      said.insert(compiled->name);
    }
  std::size_t without_dropout = 0;
  for (int const head_size : {64, 80, 96, 128, 256})
    for (auto const type : {ElementType::bf16, ElementType::fp16})
      without_dropout += tile_choices(problem_of(head_size, type, 0)).size();
  EXPECT_EQ(said.size(), without_dropout);
}

}  // namespace
}  // namespace tessera::attention_sm90
