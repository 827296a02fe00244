// SPDX-License-Identifier: Apache-2.0
// The attention block of a tensor-parallel layer on several GPUs: right, in graphs, several in flight, and
// what is refused.
#include "kernels/gemm_collectives/parallel_attention.hpp"

#include <gmock/gmock.h>

#include "attention_case.hpp"

namespace tessera::gemm_collectives {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

struct ParallelAttention : testing::Test {
  void SetUp() override {
    if (!gpus.group) GTEST_SKIP() << "needs GPUs that reach each other's memory";
  }
  /// Two query heads to a key head, one key head to a GPU.
  AttentionProblem layer(int tokens, Tokens rows) const {
    AttentionProblem problem;
    problem.tokens = tokens;
    problem.model = 512;
    problem.heads = 2 * gpus.count();
    problem.key_heads = gpus.count();
    problem.head_size = 64;
    problem.rows = rows;
    problem.ranks = gpus.count();
    return problem;
  }
  void expect_right(AttentionProblem const& problem, AttentionOptions const& options = {},
                    std::vector<int> const& offsets = {}) const {
    expect_calls_right<TensorParallelAttention>(gpus, problem, options,
                                                AttentionCase(gpus, problem, 1, offsets),
                                                AttentionCase(gpus, problem, 2, offsets));
  }

  SomeGpus const& gpus = *SomeGpus::get();
};

constexpr Tokens k_both[] = {Tokens::whole, Tokens::spread};

TEST_F(ParallelAttention, OfAnyTokensIsRight) {
  for (auto const rows : k_both)
    for (int const tokens : {1, 2, 3, 64, 129, 300, 1000}) expect_right(layer(tokens, rows));
}

TEST_F(ParallelAttention, OfAllKindsOfHeadsIsRight) {
  for (auto const rows : k_both) {
    for (int const head_size : {80, 96, 128, 256}) {
      auto problem = layer(133, rows);
      problem.head_size = head_size;
      problem.turning = Turning::neighbours;
      expect_right(problem);
    }
    auto problem = layer(300, rows);
    problem.key_heads = 0;
    expect_right(problem);
    problem.key_heads = gpus.count(), problem.heads = 4 * gpus.count();
    problem.turning = Turning::none;
    problem.type = ElementType::fp16;
    expect_right(problem);
  }
}

TEST_F(ParallelAttention, SeesWhatItsMaskLetsItSee) {
  for (auto const rows : k_both) {
    auto problem = layer(400, rows);
    problem.causal = false;
    expect_right(problem);
    problem.sequences = 4;
    problem.scale = 0.2f;
    expect_right(problem);
    problem.window = 37;
    expect_right(problem);
  }
}

TEST_F(ParallelAttention, OfRaggedSequencesIsRight) {
  for (auto const rows : k_both) {
    auto problem = layer(401, rows);
    problem.ragged = true;
    problem.sequences = 5;
    std::vector<int> const offsets{0, 1, 130, 130, 258, 401};
    expect_right(problem, {}, offsets);
    problem.longest = 143;
    expect_right(problem, {}, offsets);
  }
}

TEST_F(ParallelAttention, ByEveryWayOfItsSecondProduct) {
  for (auto const way : {Way::store, Way::add, Way::copy}) {
    if (way == Way::add && gpus.count() > 2) continue;
    AttentionOptions options;
    options.second.way = way;
    for (auto const rows : k_both) expect_right(layer(1000, rows), options);
  }
  std::string why;
  if (gpus.group->nccl(why) == nullptr) GTEST_SKIP() << why;
  AttentionOptions in_sequence;
  in_sequence.first.way = in_sequence.second.way = Way::sequential;
  for (auto const rows : k_both) expect_right(layer(333, rows), in_sequence);
}

TEST_F(ParallelAttention, TwoStreamsShareWhatIsBetweenTheProducts) {
  for (auto const rows : k_both) {
    auto const problem = layer(96, rows);
    expect_two_streams_share<TensorParallelAttention>(gpus, problem, AttentionCase(gpus, problem, 1),
                                                      AttentionCase(gpus, problem, 2));
  }
}

TEST_F(ParallelAttention, AStallIsSaidOnceAndTheNextCallWorks) {
  for (auto const rows : k_both) {
    auto const problem = layer(16, rows);
    expect_a_stall_is_said_once<TensorParallelAttention, AttentionOptions>(gpus, problem,
                                                                           AttentionCase(gpus, problem));
  }
}

TEST_F(ParallelAttention, AGraphHasTheSameBits) {
  for (auto const rows : k_both) {
    auto const problem = layer(300, rows);
    auto const call = [&](std::vector<AttentionOperands> const& operands) {
      return tensor_parallel_attention(gpus.group, problem, operands, gpus.all());
    };
    expect_a_graph_has_the_same_bits(gpus, call, AttentionCase(gpus, problem),
                                     AttentionCase(gpus, problem, 2));
  }
}

TEST_F(ParallelAttention, TakesWhatIsRememberedForItsProducts) {
  auto const problem = layer(1000, Tokens::spread);
  Options copies;
  copies.way = Way::copy;
  ASSERT_TRUE(remember(gpus.group, second_product(problem), copies));
  auto const block = must(TensorParallelAttention::make(gpus.group, problem));
  EXPECT_THAT(block.name(), HasSubstr("; copy, "));
  ASSERT_TRUE(finish_all(gpus.group, true));
}

TEST_F(ParallelAttention, RefusalsNameWhatIsWrong) {
  auto uneven = layer(8, Tokens::spread);
  uneven.heads = gpus.count() + 1, uneven.key_heads = 0;
  auto const made = TensorParallelAttention::make(gpus.group, uneven);
  ASSERT_FALSE(made);
  EXPECT_THAT(to_text(made.error()),
              StartsWith("error E0581: " + std::to_string(uneven.heads) + " heads do not divide among " +
                         std::to_string(gpus.count()) + " GPUs\n"));
  for (auto const rows : k_both) {
    auto problem = layer(64, rows);
    problem.ragged = true;
    problem.sequences = 2;
    AttentionCase const some(gpus, problem, 1, {0, 5, 64});
    auto block = must(TensorParallelAttention::make(gpus.group, problem));
    auto const refusal_of = [&](auto const& change) {
      auto operands = some.operands();
      change(operands[1], operands[0]);
      auto const done = block.run(operands, gpus.all());
      return done ? std::string() : done.error().front().message;
    };
    std::string const missing = " of rank 1 is missing or not ";
    EXPECT_EQ(refusal_of([](auto& o, auto&) { o.turns = nullptr; }), "turns" + missing + "16-byte aligned");
    EXPECT_EQ(refusal_of([](auto& o, auto&) { o.positions = nullptr; }),
              "positions" + missing + "4-byte aligned");
    EXPECT_EQ(refusal_of([](auto& o, auto&) { o.offsets = nullptr; }),
              "offsets" + missing + "4-byte aligned");
    EXPECT_EQ(refusal_of([](auto& o, auto&) { o.w_in = nullptr; }), "w_in" + missing + "16-byte aligned");
    EXPECT_EQ(refusal_of([](auto& o, auto&) { o.w_out = nullptr; }), "w_out" + missing + "16-byte aligned");
    EXPECT_EQ(refusal_of([](auto& o, auto&) { o.y = nullptr; }), "y" + missing + "16-byte aligned");
    EXPECT_THAT(refusal_of([](auto& o, auto& of_0) { o.offsets = of_0.offsets; }),
                StartsWith("offsets of rank 1 is "));
    auto const none = block.run({}, gpus.all());
    ASSERT_FALSE(none);
    EXPECT_THAT(none.error().front().message, StartsWith("operands of 0 ranks and "));
    ASSERT_TRUE(block.run(some.operands(), gpus.all()));
    ASSERT_TRUE(block.finish());
    some.expect_right("behind refusals");
  }
}

}  // namespace
}  // namespace tessera::gemm_collectives
