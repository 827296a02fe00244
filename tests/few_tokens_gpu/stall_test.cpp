// SPDX-License-Identifier: Apache-2.0
// Chains of MLPs that wait for longer than their deadline: what is said, and the launch after.
#include <gmock/gmock.h>

#include <cstdio>

#include "few_tokens_gpu/chain_problem.hpp"
#include "run_gpu/held_sms.hpp"
#include "run_gpu/told_stall.hpp"

namespace tessera::few_tokens {
namespace {

using testing::HasSubstr;

/// One block of a launch that starts early has no SM until a wait has given up, and all others wait for what
/// it should compute. A launch that does not start early begins when the driver has a place for all blocks:
/// after four deadlines.
TEST(FewTokensStall, NamesWhatWaitedAndTheNextLaunchIsRight) {
  for (int const tokens : {1, 9})
    for (bool const in_data : {false, true})
      for (bool const starts_early : {false, true}) {
        if (in_data && tokens > 2) continue;
        SCOPED_TRACE(testing::Message()
                     << tokens << " tokens, in data " << in_data << ", starts early " << starts_early);
        MlpChainConfig config;
        config.tokens_in_data = in_data;
        config.starts_early = starts_early;
        config.deadline_seconds = 0.05;
        mlp::Shape const shape{tokens, 1024, 768, Form::gelu, ElementType::bf16};
        Problem const problem(shape, 5);
        auto chain = MlpChain::make(shape, problem.buffers(), config);
        ASSERT_OK(chain);
        ASSERT_OK(chain->launch(nullptr, 4));
        ASSERT_OK(chain->finish());
        ASSERT_LE(problem.error(4), allowed_error(shape));
        auto const expected = problem.result(4);
        cudaStream_t own;
        ok(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking));
        for (int round = 0; round < 2; ++round) {
          gpu::HeldSms held(1, starts_early ? 10 : 4 * config.deadline_seconds);
          ASSERT_OK(chain->launch(own, 4));
          if (starts_early) {
            EXPECT_TRUE(gpu::a_stall_comes());
            held.release();
          }
          ok(cudaDeviceSynchronize());
          EXPECT_EQ(chain->stalled(), starts_early);
          auto const stalled = chain->finish();
          if (!starts_early) {
            ASSERT_OK(stalled);
            problem.start_again();
            ASSERT_OK(chain->launch(own, 4));
            ASSERT_OK(chain->finish());
            ASSERT_EQ(problem.result(4), expected) << "round " << round;
            continue;
          }
          ASSERT_FALSE(stalled) << "a block was missing, and nothing waited for it";
          EXPECT_EQ(stalled.error().front().code, "E0520");
          EXPECT_THAT(to_text(stalled.error()),
                      HasSubstr(in_data ? " waits for data that a stage before it writes" : " waits for "));
          EXPECT_THAT(to_text(stalled.error()), HasSubstr(" tile ("));
          if (round == 0) std::printf("%s\n", to_text(stalled.error()).c_str());
          problem.start_again();
          ASSERT_OK(chain->launch(own, 4));
          ASSERT_OK(chain->finish());
          ASSERT_EQ(problem.result(4), expected) << "round " << round;
        }
        ok(cudaStreamDestroy(own));
      }
}

}  // namespace
}  // namespace tessera::few_tokens
