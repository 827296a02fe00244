// SPDX-License-Identifier: Apache-2.0
// Chains of MLPs in one launch: the right numbers for every form, type and way to cut the work, and for
// launches of any length in a row.
#include "few_tokens_gpu/chain_problem.hpp"
#include "gpu/launches.hpp"

namespace tessera::few_tokens {
namespace {

std::string words(mlp::Shape const& shape, MlpChainConfig const& config) {
  return std::to_string(shape.tokens) + " tokens, model " + std::to_string(shape.model) + ", hidden " +
         std::to_string(shape.hidden) + (shape.form == Form::gelu ? ", gelu" : ", swiglu") +
         (shape.type == ElementType::bf16 ? ", bf16" : ", fp16") + ", workers " +
         std::to_string(config.workers) + ", slots " + std::to_string(config.slots) + ", in flight " +
         std::to_string(config.in_flight) + ", late slots " + std::to_string(config.late_slots) +
         (config.starts_early ? ", starts early" : "") + (config.tokens_in_data ? ", tokens in data" : "") +
         (config.cluster_blocks > 1 ? ", in pairs" : "");
}

/// Launches of 1, 2, 3, ... MLPs, each from the same input. The last MLP of each is right, and has read, bit
/// by bit, what the launch before came to: so all of its MLPs are.
void expect_right(mlp::Shape const& shape, MlpChainConfig config, int longest = 5) {
  SCOPED_TRACE(words(shape, config));
  config.deadline_seconds = gpu::patient(config.deadline_seconds);
  Problem const problem(shape, 1);
  auto chain = MlpChain::make(shape, problem.buffers(), config);
  ASSERT_OK(chain);
  std::vector<unsigned short> before;
  for (int launched = 1; launched <= longest; ++launched) {
    problem.start_again();
    ASSERT_OK(chain->launch(nullptr, launched));
    ASSERT_OK(chain->finish());
    if (launched > 1) {
      ASSERT_EQ(problem.last_input(launched), before) << launched << " MLPs";
    }
    ASSERT_LE(problem.error(launched), allowed_error(shape)) << launched << " MLPs";
    ASSERT_TRUE(problem.kept_its_bounds());
    before = problem.result(launched);
  }
}

constexpr int k_tokens[] = {1, 2, 3, 8, 9, 16, 32, 33, 64};

void every_token_count(int model, int hidden, Form form, ElementType type) {
  for (int const tokens : k_tokens)
    for (bool const in_data : {false, true}) {
      if (in_data && tokens > 2) continue;
      MlpChainConfig config;
      config.tokens_in_data = in_data;
      expect_right({tokens, model, hidden, form, type}, config);
      if (testing::Test::HasFatalFailure()) return;
    }
}

TEST(FewTokens, GeluBf16) { every_token_count(2048, 1024, Form::gelu, ElementType::bf16); }
TEST(FewTokens, GeluFp16) { every_token_count(1024, 1408, Form::gelu, ElementType::fp16); }
TEST(FewTokens, SwigluBf16) { every_token_count(1024, 2752, Form::swiglu, ElementType::bf16); }
TEST(FewTokens, SwigluFp16) { every_token_count(1536, 704, Form::swiglu, ElementType::fp16); }
TEST(FewTokens, SmallerThanTheGpu) {
  every_token_count(64, 64, Form::swiglu, ElementType::bf16);
  every_token_count(128, 64, Form::gelu, ElementType::fp16);
  every_token_count(64, 192, Form::gelu, ElementType::bf16);
}
// Pairs of blocks that share the depth: odd numbers of k-blocks and of rows, empty tiles, both products or
// one.
TEST(FewTokensInPairs, EveryFormAndNumberOfTokens) {
  MlpChainConfig config;
  config.cluster_blocks = 2;
  for (int const tokens : {9, 16, 17, 33, 64})
    for (auto const& shape : {mlp::Shape{tokens, 2048, 1024, Form::gelu, ElementType::bf16},
                              {tokens, 1024, 2752, Form::swiglu, ElementType::fp16},
                              {tokens, 4096, 3584, Form::swiglu, ElementType::bf16},
                              {tokens, 128, 192, Form::swiglu, ElementType::bf16},
                              {tokens, 12288, 6144, Form::gelu, ElementType::bf16}}) {
      expect_right(shape, config, 4);
      if (HasFatalFailure()) return;
    }
}
TEST(FewTokensInPairs, SmallerThanTheGpu) {
  MlpChainConfig config;
  config.cluster_blocks = 2;
  for (int const tokens : {9, 16, 33}) {
    expect_right({tokens, 128, 192, Form::swiglu, ElementType::bf16}, config, 3);
    expect_right({tokens, 192, 128, Form::gelu, ElementType::fp16}, config, 3);
  }
}
TEST(FewTokensInPairs, EveryWayToCutIsRight) {
  for (int const tokens : {9, 16, 40})
    for (auto const form : {Form::gelu, Form::swiglu}) {
      MlpChainConfig config;
      config.cluster_blocks = 2;
      for (int const workers : {16, 34, 100, 0})
        for (int const in_flight : {0, 1, 3}) {
          config.workers = workers, config.in_flight = in_flight;
          expect_right({tokens, 1024, 832, form, ElementType::bf16}, config, 3);
          if (HasFatalFailure()) return;
          // Slots of fewer blocks are too large for four of them.
          if (workers != 0 && workers < 100) continue;
          config.slots = 4, config.late_slots = 5, config.starts_early = true;
          expect_right({tokens, 1024, 832, form, ElementType::bf16}, config, 3);
          config.slots = 0, config.late_slots = 0, config.starts_early = false;
          if (HasFatalFailure()) return;
        }
    }
}
/// The order in which a pair adds does not depend on which block is earlier.
TEST(FewTokensInPairs, EqualBits) {
  mlp::Shape const shape{16, 4096, 3584, Form::swiglu, ElementType::bf16};
  MlpChainConfig config;
  config.cluster_blocks = 2;
  Problem const problem(shape, 4);
  auto chain = MlpChain::make(shape, problem.buffers(), config);
  ASSERT_OK(chain);
  std::vector<unsigned short> first;
  for (int round = 0; round < 500; ++round) {
    problem.start_again();
    ASSERT_OK(chain->launch(nullptr, 8));
    ASSERT_OK(chain->finish());
    if (round == 0) first = problem.result(8);
    ASSERT_EQ(problem.result(8), first) << round;
  }
}

TEST(FewTokens, Gpt3) {
  for (int const tokens : {1, 8, 32, 64})
    expect_right({tokens, 12288, 6144, Form::gelu, ElementType::bf16}, {}, 4);
}
TEST(FewTokens, Llama) {
  for (int const tokens : {1, 8, 32})
    expect_right({tokens, 8192, 2752, Form::swiglu, ElementType::fp16}, {}, 4);
}

TEST(FewTokens, EveryWayToCutIsRight) {
  for (int const tokens : {1, 2, 16})
    for (bool const in_data : {false, true}) {
      if (in_data && tokens > 2) continue;
      for (auto const form : {Form::gelu, Form::swiglu}) {
        mlp::Shape const shape{tokens, 1024, 768, form, ElementType::bf16};
        MlpChainConfig config;
        config.tokens_in_data = in_data;
        for (int const in_flight : {1, 2, 3, 5}) {
          config.in_flight = in_flight;
          expect_right(shape, config, 3);
          config.slots = 4;
          expect_right(shape, config, 3);
          config.slots = 0;
          if (HasFatalFailure()) return;
        }
        config.in_flight = 0;
        for (int const workers : {16, 33, 100}) {
          config.workers = workers;
          expect_right(shape, config, 3);
        }
        config.workers = 0;
        for (int const late_slots : {4, 5, 16}) {
          config.late_slots = late_slots;
          expect_right(shape, config, 3);
        }
        if (HasFatalFailure()) return;
      }
    }
}

/// Launches one behind the other, of any length, with nothing that waits in between: the same bits as one by
/// one.
TEST(FewTokens, LaunchesInARowHaveTheSameBits) {
  for (int const tokens : {1, 2, 9})
    for (bool const in_data : {false, true})
      for (bool const starts_early : {false, true}) {
        if (in_data && tokens > 2) continue;
        mlp::Shape const shape{tokens, 1024, 768, Form::gelu, ElementType::bf16};
        MlpChainConfig config;
        config.tokens_in_data = in_data;
        config.starts_early = starts_early;
        SCOPED_TRACE(words(shape, config));
        Problem const problem(shape, 2);
        auto chain = MlpChain::make(shape, problem.buffers(), config);
        ASSERT_OK(chain);
        // Even numbers leave their result where the next launch reads.
        auto const run = [&](bool one_by_one, cudaStream_t stream) {
          for (int const launched : {2, 6, 4, 0, 2, 20}) {
            ASSERT_OK(chain->launch(stream, launched));
            if (one_by_one) ASSERT_OK(chain->finish());
          }
        };
        run(true, nullptr);
        ASSERT_LE(problem.error(20), allowed_error(shape));
        auto const expected = problem.result(20);
        cudaStream_t stream;
        ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        for (int round = 0; round < 20; ++round) {
          problem.start_again();
          run(false, stream);
          ASSERT_OK(chain->finish());
          ASSERT_EQ(problem.result(20), expected) << round;
        }
        cudaGraph_t graph;
        cudaGraphExec_t executable;
        ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        run(false, stream);
        ok(cudaStreamEndCapture(stream, &graph));
        ok(cudaGraphInstantiate(&executable, graph, 0));
        for (int round = 0; round < 20; ++round) {
          problem.start_again();
          ok(cudaGraphLaunch(executable, stream));
          ok(cudaStreamSynchronize(stream));
          ASSERT_EQ(problem.result(20), expected) << "replay " << round;
        }
        ok(cudaGraphExecDestroy(executable));
        ok(cudaGraphDestroy(graph));
        ok(cudaStreamDestroy(stream));
      }
}

/// Words carry 16 bits of the iteration, counted over all launches.
TEST(FewTokens, EveryConfigurationOfATunerIsRight) {
  for (int const tokens : {1, 2, 8, 16, 33, 64})
    for (auto const& config : chain_configs(tokens)) {
      SCOPED_TRACE(to_string(config));
      for (auto const form : {Form::gelu, Form::swiglu})
        expect_right({tokens, 2048, 1536, form, ElementType::bf16}, config, 3);
      if (HasFatalFailure()) return;
    }
}

/// Where one copy of x is not written for as many iterations as there are tokens, its words must not look
/// new.
TEST(FewTokens, WordsThatWereNotOverwrittenAreNotTakenForNew) {
  mlp::Shape const shape{1, 1024, 768, Form::gelu, ElementType::bf16};
  MlpChainConfig config;
  config.tokens_in_data = true;
  Problem const problem(shape, 6);
  auto chain = MlpChain::make(shape, problem.buffers(), config);
  ASSERT_OK(chain);
  ASSERT_OK(chain->launch(nullptr, 4));
  ASSERT_OK(chain->finish());
  auto const expected = problem.result(4);
  // A launch of one MLP is two serial numbers: the second MLP of the last launch has the token of the fourth
  // of the first launch.
  for (int launch = 0; launch < 16383; ++launch) ASSERT_OK(chain->launch(nullptr, 1));
  ASSERT_OK(chain->finish());
  problem.start_again();
  ASSERT_OK(chain->launch(nullptr, 4));
  ASSERT_OK(chain->finish());
  EXPECT_EQ(problem.result(4), expected);
}

/// What is enqueued before a launch waits for the chain's launch before it as well.
TEST(FewTokens, LaunchesOfWordsOnTwoStreamsFollowEachOther) {
  mlp::Shape const shape{1, 1024, 768, Form::gelu, ElementType::bf16};
  MlpChainConfig config;
  config.tokens_in_data = true;
  config.deadline_seconds = 0.5;
  Problem const problem(shape, 7);
  auto chain = MlpChain::make(shape, problem.buffers(), config);
  ASSERT_OK(chain);
  cudaStream_t streams[2];
  for (auto& stream : streams) ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  // What is computed grows beyond all bounds; a word that was lost would end at the deadline.
  for (int i = 0; i < 200; ++i) ASSERT_OK(chain->launch(streams[i % 2], i % 2 == 0 ? 40 : 1));
  ASSERT_OK(chain->finish());
  problem.start_again();
  ASSERT_OK(chain->launch(streams[1], 1));
  ASSERT_OK(chain->finish());
  EXPECT_LE(problem.error(1), allowed_error(shape));
  EXPECT_FALSE(chain->launch(streams[0], -1));
  for (auto const stream : streams) ok(cudaStreamDestroy(stream));
}

TEST(FewTokens, SerialNumbersMayWrapAround) {
  for (bool const in_data : {false, true}) {
    mlp::Shape const shape{1, 128, 64, Form::gelu, ElementType::bf16};
    MlpChainConfig config;
    config.tokens_in_data = in_data;
    Problem const problem(shape, 3);
    auto chain = MlpChain::make(shape, problem.buffers(), config);
    ASSERT_OK(chain);
    std::vector<unsigned short> expected;
    for (int launch = 0; launch < 11000; ++launch) {
      problem.start_again();
      ASSERT_OK(chain->launch(nullptr, 6));
      ASSERT_OK(chain->finish());
      auto const found = problem.result(6);
      if (launch == 0) {
        ASSERT_LE(problem.error(6), allowed_error(shape));
        expected = found;
      }
      ASSERT_EQ(found, expected) << launch;
    }
  }
}

TEST(FewTokens, TooManyRowsForABlockAreRefused) {
  mlp::Shape const shape{1, 2048, 64, Form::gelu, ElementType::bf16};
  Problem const problem(shape, 4);
  MlpChainConfig config;
  config.workers = 4;
  auto const chain = MlpChain::make(shape, problem.buffers(), config);
  ASSERT_FALSE(chain);
  EXPECT_EQ(chain.error().front().code, "E0565");
  EXPECT_NE(to_text(chain.error()).find("rows of weights for each of 4 blocks"), std::string::npos)
      << to_text(chain.error());
}

}  // namespace
}  // namespace tessera::few_tokens
