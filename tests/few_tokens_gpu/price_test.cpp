// SPDX-License-Identifier: Apache-2.0
// Which way results of a chain of MLPs go, by price.
#include <gmock/gmock.h>

#include <algorithm>
#include <tessera/measure/machine_json.hpp>

#include "kernels/few_tokens/chain_price.hpp"

namespace tessera::few_tokens {
namespace {

mlp::Shape const k_mixtral{1, 4096, 3584, mlp::Form::swiglu};
mlp::Shape const k_gpt3{1, 12288, 6144};

MlpChainConfig rings(int kilobytes, int in_flight) {
  MlpChainConfig config;
  config.slot_bytes = kilobytes * 1024;
  config.in_flight = in_flight;
  return config;
}

TEST(FewTokensPrice, WordsForFewBytesAndLittleOnItsWay) {
  auto const h200 = machine("h200").value();
  auto const words = chain_exchange(k_mixtral, rings(28, 2), h200);
  EXPECT_EQ(words.way, Exchange::words);
  EXPECT_THAT(words.reason,
              testing::HasSubstr("(8192 bytes of 132 blocks to 132, 7168 bytes of 132 blocks to "
                                 "132; 56 KB on their way on each SM, until 116 KB are loaded)"));
  EXPECT_EQ(chain_exchange(k_gpt3, rings(24, 3), h200).way, Exchange::semaphore);
  auto const all = chain_exchange(k_gpt3, rings(28, 0), h200);
  EXPECT_EQ(all.way, Exchange::semaphore);
  EXPECT_THAT(all.reason, testing::HasSubstr("172 KB on their way on each SM, until 0 KB are loaded"));
}

TEST(FewTokensPrice, NoWordsForManyTokensOrWithoutFigures) {
  auto h200 = machine("h200").value();
  auto shape = k_mixtral;
  shape.tokens = 3;
  EXPECT_EQ(chain_exchange(shape, rings(28, 2), h200).reason, "semaphores: nothing else is offered");
  h200.probe.reset();
  EXPECT_EQ(chain_exchange(k_mixtral, rings(28, 2), h200).reason,
            "semaphores: the profile h200 has no figures of the exchanges that are offered");
}

TEST(FewTokensPrice, ATunerTriesEachRingOnce) {
  auto const h200 = machine("h200").value();
  for (int const tokens : {1, 2, 8}) {
    auto shape = k_mixtral;
    shape.tokens = tokens;
    auto const both = chain_configs(tokens), priced = chain_configs(shape, h200);
    EXPECT_EQ(priced.size(), tokens <= 2 ? both.size() / 2 : both.size());
    for (auto const& config : priced) {
      EXPECT_EQ(config.tokens_in_data, chain_exchange(shape, config, h200).way == Exchange::words);
      EXPECT_EQ(std::count_if(priced.begin(), priced.end(),
                              [&](auto const& other) { return to_string(other) == to_string(config); }),
                1);
    }
  }
}

}  // namespace
}  // namespace tessera::few_tokens
