// SPDX-License-Identifier: Apache-2.0
// A chain of convolutions that waits for longer than its deadline: what is said, and the launch after.
#include <gmock/gmock.h>

#include <cstdio>

#include "convolution_gpu/chain_problem.hpp"
#include "run_gpu/held_sms.hpp"
#include "run_gpu/told_stall.hpp"

namespace tessera::convolution {
namespace {

using testing::HasSubstr;

/// Most SMs have no place for a block until a wait has given up, and others wait for what it should compute.
TEST(ConvolutionStall, NamesLayerAndTileAndTheNextLaunchIsRight) {
  for (int const splits : {1, 2}) {
    SCOPED_TRACE(splits);
    auto options = persistent();
    options.splits = splits;
    options.starts_early = true;  // otherwise the launch begins when there is a place for all blocks
    options.deadline_seconds = 0.05;
    auto const base = same_size(8, 14, 256, 3);
    Problem const problem(base, 5);
    auto chain = ConvChain::make(base, problem.buffers(), options);
    ASSERT_OK(chain);
    ASSERT_OK(chain->run(nullptr));
    ASSERT_OK(chain->finish());
    auto const expected = problem.result();
    cudaStream_t own;
    ok(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking));
    for (int round = 0; round < 2; ++round) {
      gpu::HeldSms held(gpu::sms_of_device() - 16);
      ASSERT_OK(chain->run(own));
      EXPECT_TRUE(gpu::a_stall_comes());
      held.release();
      auto const stalled = chain->finish();
      ASSERT_FALSE(stalled) << "blocks were missing, and nothing waited for them";
      EXPECT_EQ(stalled.error().front().code, "E0520");
      EXPECT_THAT(to_text(stalled.error()), HasSubstr("convolution_"));
      EXPECT_THAT(to_text(stalled.error()), HasSubstr(" tile ("));
      if (round == 0) std::printf("%s\n", to_text(stalled.error()).c_str());
      problem.start_again();
      ASSERT_OK(chain->run(own));
      ASSERT_OK(chain->finish());
      ASSERT_EQ(problem.result(), expected) << "round " << round;
    }
    ok(cudaStreamDestroy(own));
  }
}

/// Two launches: the next run says what happened in one of them and enqueues neither; the one after is right.
TEST(ConvolutionStall, OfSeveralLaunchesIsSaidByTheNextRun) {
  LayerChain base{8, 28, 28, 128, {}};
  for (int stage = 0; stage < 3; ++stage)
    for (int i = 0; i < 3; ++i) base.layers.push_back(layer(128 << stage, 3, stage > 0 && i == 0 ? 2 : 1, 1));
  auto options = persistent();
  options.starts_early = true;
  options.deadline_seconds = 0.05;
  Problem const problem(base, 5);
  auto chain = ConvChain::make(base, problem.buffers(), options);
  ASSERT_OK(chain);
  ASSERT_GT(chain->launches().size(), 1u);
  ASSERT_OK(chain->run(nullptr));
  ASSERT_OK(chain->finish());
  auto const expected = problem.result();
  cudaStream_t own;
  ok(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking));
  gpu::HeldSms held(gpu::sms_of_device() - 16);
  ASSERT_OK(chain->run(own));
  EXPECT_TRUE(gpu::a_stall_comes());
  held.release();
  ok(cudaDeviceSynchronize());
  EXPECT_TRUE(chain->stalled());
  auto const said = chain->run(own);
  ASSERT_FALSE(said) << "blocks were missing, and nothing waited for them";
  EXPECT_EQ(said.error().front().code, "E0520");
  EXPECT_THAT(to_text(said.error()), HasSubstr("convolution_"));
  EXPECT_THAT(to_text(said.error()), HasSubstr(" tile ("));
  EXPECT_FALSE(chain->stalled());
  problem.start_again();
  ASSERT_OK(chain->run(own));
  ASSERT_OK(chain->finish());
  EXPECT_EQ(problem.result(), expected);
  ok(cudaStreamDestroy(own));
}

}  // namespace
}  // namespace tessera::convolution
