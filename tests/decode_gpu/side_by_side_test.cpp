// SPDX-License-Identifier: Apache-2.0
// Two decoders in flight at a time, in two streams.
#include <gmock/gmock.h>

#include "decode_gpu/own_stream.hpp"
#include "decode_gpu/small_decoder.hpp"

namespace tessera::decode {
namespace {

using Tokens = std::vector<std::vector<int>>;

/// One by words, one behind semaphores, with the same weights and memory of their own for the rest. `blocks`:
/// of each, 0: one for each SM, so that the launches of one decoder find the SMs taken by the other's.
void side_by_side(int blocks) {
  auto const model = reference::small_model();
  reference::Weights const weights(model, 6);
  WeightsOnDevice const on_device(weights);
  Options few, many;
  few.capacity = many.capacity = 64;
  few.cut.blocks = many.cut.blocks = blocks;
  many.batch = 3;
  auto one = Decoder::make(model, on_device.weights, few, nullptr);
  ASSERT_OK(one);
  auto other = one->another(many, nullptr);
  ASSERT_OK(other);
  gpu::ok(cudaDeviceSynchronize());
  OwnStream const first, second;
  Tokens const prompt = {{1, 2, 3}}, prompts = {{4, 5}, {6, 7, 8}, {9}};
  Tokens alone_one, alone_other;
  constexpr int k_pieces = 5, k_steps = 4;
  for (int round = 0; round < 4; ++round) {
    bool const together = round > 0;
    ASSERT_OK(one->prefill(first, prompt));
    if (!together) gpu::ok(cudaDeviceSynchronize());
    ASSERT_OK(other->prefill(second, prompts));
    for (int piece = 0; piece < k_pieces; ++piece) {
      ASSERT_OK(one->decode(first, k_steps));
      if (!together) gpu::ok(cudaDeviceSynchronize());
      ASSERT_OK(other->decode(second, k_steps));
      if (!together) gpu::ok(cudaDeviceSynchronize());
    }
    auto const of_one = one->tokens(), of_other = other->tokens();
    ASSERT_OK(of_one);
    ASSERT_OK(of_other);
    if (!together) alone_one = *of_one, alone_other = *of_other;
    EXPECT_EQ(*of_one, alone_one) << "round " << round;
    EXPECT_EQ(*of_other, alone_other) << "round " << round;
  }
}

TEST(DecodersSideBySide, OnEverySm) { side_by_side(0); }
TEST(DecodersSideBySide, OnSmsOfTheirOwn) { side_by_side(32); }

}  // namespace
}  // namespace tessera::decode
