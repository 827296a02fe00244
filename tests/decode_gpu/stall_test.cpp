// SPDX-License-Identifier: Apache-2.0
// Steps that wait for longer than their deadline: what is said, and what comes after.
#include <gmock/gmock.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "decode_gpu/small_decoder.hpp"
#include "few_tokens_gpu/hold_an_sm.hpp"

namespace tessera::decode {
namespace {

using testing::ContainsRegex;

/// One block has no SM for four deadlines, and all others wait for what it should compute.
TEST(DecodeStall, NamesOperatorLayerAndTileAndTheNextSequenceIsRight) {
  auto const model = reference::small_model();
  reference::Weights const weights(model, 6);
  WeightsOnDevice const on_device(weights);
  Options options;
  options.capacity = 64;
  options.deadline_seconds = 0.05;
  auto decoder = Decoder::make(model, on_device.weights, options, nullptr);
  ASSERT_OK(decoder);
  cudaStream_t held, own;
  gpu::ok(cudaStreamCreateWithFlags(&held, cudaStreamNonBlocking));
  gpu::ok(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking));
  auto const generate = [&](std::vector<std::vector<int>>& to) {
    ASSERT_OK(decoder->prefill(own, {{1, 2, 3}}));
    ASSERT_OK(decoder->decode(own, 20));
    auto const tokens = decoder->tokens();
    ASSERT_OK(tokens);
    to.push_back((*tokens)[0]);
  };
  std::vector<std::vector<int>> generated;
  generate(generated);
  for (int round = 0; round < 2; ++round) {
    gpu::ok(cudaDeviceSynchronize());
    ASSERT_OK(decoder->begin(own, {{{1}, 0}}));
    gpu::ok(few_tokens::hold_an_sm(held, 0.2));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // it has an SM
    ASSERT_OK(round == 0 ? decoder->decode(own, 2) : decoder->step(own));
    auto const stalled = decoder->finish();
    ASSERT_FALSE(stalled) << "a block was missing, and nothing waited for it";
    EXPECT_EQ(stalled.error().front().code, "E0520");
    EXPECT_THAT(to_text(stalled.error()),
                ContainsRegex("(qkv|attention|out|gate_up|down)[_0-9]* tile \\([0-9]+\\) waits for "));
    EXPECT_THAT(to_text(stalled.error()), ContainsRegex("; layer [01] of 2"));
    if (round == 0) std::printf("%s\n", to_text(stalled.error()).c_str());
    EXPECT_FALSE(decoder->decode(own, 1)) << "sequences are lost";
    generate(generated);
    EXPECT_EQ(generated.back(), generated.front()) << "round " << round;
  }
  gpu::ok(cudaStreamDestroy(held));
  gpu::ok(cudaStreamDestroy(own));
}

}  // namespace
}  // namespace tessera::decode
