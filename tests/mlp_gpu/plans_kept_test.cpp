// SPDX-License-Identifier: Apache-2.0
// More numbers of tokens than plans are kept for: right, bounded, and captures keep all of theirs.
#include <vector>

#include "kernels/mlp/kept.hpp"
#include "kernels/mlp/mlp.hpp"
#include "mlp_gpu/operands.hpp"
#include "mlp_gpu/plans.hpp"
#include "src/gpu/graph.hpp"
#include "tessera/tune/plans.hpp"

namespace tessera::mlp {
namespace {

constexpr double allowed = 2e-3;
constexpr Shape shape{40, 1544, 1032, Form::swiglu, ElementType::bf16};

TEST(MlpPlansKept, AreNoMoreThanAskedForAndAllSizesAreRight) {
  Stream const stream;
  Operands const operands(shape, 21, stream);
  for (auto const& plan : some_plans(shape)) {
    MlpOptions options;
    options.only = plan;
    options.most_plans = 3;
    auto block = Mlp::make(shape, options);
    ASSERT_TRUE(block) << to_text(block.error());
    int computed = 0;
    for (int round = 0; round < 2; ++round)
      for (int const tokens : {40, 1, 16, 7, 33, 2, 8}) {
        if (!block->choice(tokens)) continue;  // this plan cannot be resized so far
        ++computed;
        operands.poison_result();
        // The launches before may still run when theirs are given up.
        for (int i = 0; i < 3; ++i) {
          auto const launched =
              block->launch(operands.x, operands.w1, operands.w2, operands.y, tokens, stream);
          ASSERT_TRUE(launched) << to_text(launched.error());
        }
        EXPECT_LE(block->plans(), 3);
        EXPECT_LE(operands.error(tokens), allowed) << tokens << " tokens, " << plan_name(plan);
      }
    EXPECT_GE(computed, 8) << plan_name(plan);
    auto const finished = block->finish(stream);
    EXPECT_TRUE(finished) << to_text(finished.error());
  }
}

TEST(MlpPlansKept, GraphsHaveTheirs) {
  Stream const stream;
  Operands const operands(shape, 22, stream);
  MlpOptions options;
  options.use_cache = false;
  options.most_plans = 2;
  auto& kept = *new KeptMlps(shape, options);  // graphs tell it of their end
  auto const launch = [&](int tokens) {
    auto const launched = kept.launch(operands.x, operands.w1, operands.w2, operands.y, tokens, stream);
    EXPECT_TRUE(launched) << to_text(launched.error());
  };
  std::vector<int> const sizes{1, 9, 16, 33, 40};
  gpu::Graph const all(stream, [&] {
    for (int const tokens : sizes) launch(tokens);
  });
  for (int round = 0; round < 3; ++round) {
    for (int tokens = 1; tokens <= 12; ++tokens) {
      operands.poison_result();
      launch(tokens);
      EXPECT_LE(operands.error(tokens), allowed) << tokens;
    }
    operands.poison_result();
    all.replay(stream);
    EXPECT_LE(operands.error(sizes.back()), allowed) << "replay " << round;
  }
  auto const finished = kept.finish(stream);
  EXPECT_TRUE(finished) << to_text(finished.error());
}

TEST(MlpPlansKept, MemoryIsLentInTheSameCall) {
  Stream const stream;
  Operands const operands(shape, 23, stream);
  MlpOptions options;
  options.use_cache = false;
  options.lends_scratch = true;
  auto& kept = *new KeptMlps(shape, options);
  std::vector<void*> lent;
  int asked = 0;
  for (int const tokens : {40, 3, 40}) {
    operands.poison_result();
    auto const launched = kept.launch(operands.x, operands.w1, operands.w2, operands.y, tokens, stream,
                                      [&](std::size_t bytes) -> void* {
                                        ++asked;
                                        EXPECT_EQ(bytes, kept.scratch_bytes(tokens, stream).value());
                                        void* data = nullptr;
                                        EXPECT_EQ(cudaMalloc(&data, bytes), cudaSuccess);
                                        lent.push_back(data);
                                        return data;
                                      });
    ASSERT_TRUE(launched) << to_text(launched.error());
    EXPECT_LE(operands.error(tokens), allowed) << tokens;
  }
  EXPECT_EQ(asked, 3);
  auto const refused = kept.launch(operands.x, operands.w1, operands.w2, operands.y, 3, stream,
                                   [](std::size_t) -> void* { return nullptr; });
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().front().code, "E0536");
  EXPECT_TRUE(kept.finish(stream));
  for (auto* const one : lent) cudaFree(one);
}

}  // namespace
}  // namespace tessera::mlp
