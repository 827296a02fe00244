// SPDX-License-Identifier: Apache-2.0
// The table of waves, and the pairs that are made from it; no GPU is asked.
#include "kernels/gemm_sm90/candidates.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace tessera::gemm_sm90 {
namespace {

constexpr int multiprocessors = 132;

Estimate of(char const* name, int rows, int columns, int depth) {
  Kernel const* const kernel = find_kernel(name);
  EXPECT_NE(kernel, nullptr) << name;
  return estimate(kernel->info, {rows, columns, depth}, multiprocessors);
}

TEST(Estimate, CountsTilesThatPadAClusterAndTheWavesTheyTake) {
  // 3 rows of 43 columns; clusters of two columns make 44 of them.
  Estimate const fits = of("256x144x64_1x2", 768, 6144, 12288);
  EXPECT_EQ(fits.tiles, 132);
  EXPECT_EQ(fits.waves, 1);
  EXPECT_NEAR(fits.useful, 768.0 * 6144 / (132 * 256 * 144), 1e-9);
  Estimate const spills = of("128x192x64_2x1", 768, 6144, 12288);
  EXPECT_EQ(spills.tiles, 192);
  EXPECT_EQ(spills.waves, 2);
  EXPECT_LT(fits.microseconds, spills.microseconds);
}

TEST(Estimate, KnowsWhatHalfABillionBytesOfWeightsCost) {
  // One token: whatever the tile, the weights have to come.
  EXPECT_GE(of("64x128x64_1x1", 1, 6144, 12288).microseconds, 2.0 * 6144 * 12288 / 4.16e6);
}

TEST(HalfCandidates, PutTheShapeFirstThatFillsOneWave) {
  mlp::Shape const llama{512, 8192, 2752, mlp::Form::swiglu};
  auto const halves = half_candidates(llama, true, multiprocessors);
  ASSERT_FALSE(halves.empty());
  EXPECT_STREQ(halves.front().kernel->info.name, "128x168x64_2x1_gated");
  mlp::Shape const gpt3{768, 12288, 6144};
  auto const others = half_candidates(gpt3, true, multiprocessors);
  bool const has = std::any_of(others.begin(), others.end(), [](Half const& half) {
    return std::string(half.kernel->info.name) == "256x144x64_1x2";
  });
  EXPECT_TRUE(has);
}

TEST(Candidates, CanAllRun) {
  alignas(16) static unsigned char place[16];
  for (auto const form : {mlp::Form::gelu, mlp::Form::swiglu})
    for (auto const type : {ElementType::bf16, ElementType::fp16})
      for (int const tokens : {1, 100, 512, 4096}) {
        mlp::Shape const shape{tokens, 8192, 2752, form, type};
        auto const plans = candidates(shape, multiprocessors);
        EXPECT_GE(plans.size(), 50u);
        PairBuffers buffers;
        buffers.tokens = tokens;
        buffers.model = shape.model;
        buffers.hidden = shape.hidden;
        buffers.x = buffers.w1 = buffers.w2 = place;
        buffers.h = buffers.y = place;
        buffers.counters = reinterpret_cast<unsigned long long*>(place);
        buffers.stall = reinterpret_cast<StallRecord*>(place);
        buffers.form = form;
        buffers.type = type;
        for (PairPlan const& plan : plans)
          EXPECT_TRUE(can_implement(plan, buffers))
              << plan.first.kernel->info.name << " > " << plan.second.kernel->info.name;
        // Another type, or another form, is refused.
        buffers.type = type == ElementType::bf16 ? ElementType::fp16 : ElementType::bf16;
        EXPECT_FALSE(can_implement(plans.front(), buffers));
        buffers.type = type;
        buffers.form = form == mlp::Form::gelu ? mlp::Form::swiglu : mlp::Form::gelu;
        EXPECT_FALSE(can_implement(plans.front(), buffers));
      }
}

TEST(Candidates, AreCutFromTheEnd) {
  mlp::Shape const shape{1024, 12288, 6144};
  auto const all = candidates(shape, multiprocessors, 1000);
  auto const few = candidates(shape, multiprocessors, 10);
  ASSERT_EQ(few.size(), 10u);
  for (std::size_t i = 0; i < few.size(); ++i) {
    EXPECT_EQ(few[i].first.kernel, all[i].first.kernel);
    EXPECT_EQ(few[i].mechanism, all[i].mechanism);
  }
}

TEST(Calls, LeaveAHalfWithoutAKernelAlone) {
  PairPlan plan;
  plan.second.kernel = find_kernel("128x128x64_2x1");
  plan.mechanism = Mechanism::pdl_tiles;
  PairBuffers buffers;
  buffers.tokens = 64;
  buffers.model = buffers.hidden = 128;
  EXPECT_EQ(counters_of(plan, buffers), 0);
  EXPECT_FALSE(can_implement(plan, buffers));
  PairCalls const calls = calls_of(plan, buffers);
  EXPECT_EQ(calls.first.posts.memory, nullptr);
  EXPECT_EQ(calls.second.waits.memory, nullptr);
  EXPECT_FALSE(calls.second.programmatic);
}

}  // namespace
}  // namespace tessera::gemm_sm90
