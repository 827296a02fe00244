// SPDX-License-Identifier: Apache-2.0
// What a run of a decoder looks like.
#include "tessera/report/generation.hpp"

#include <gtest/gtest.h>

namespace tessera {
namespace {

Generation some() {
  Generation g;
  g.identity.gpu = "NVIDIA H200", g.identity.driver = "580.1, CUDA 13.0", g.identity.sm_clock_ghz = 1.98;
  g.model = "small", g.weights = "random, seed 1";
  g.layers = 2;
  g.sequences = {{{1, 2, 3, 40, 50}, 3}, {{7, 8, 9}, 1}};
  g.prompt_us = 3000, g.step_us = {100, 98, 99}, g.steps = {8, 2, 8};
  g.step_bytes = 198e6, g.floor_us = 49.5;
  g.operators = {{"qkv", 1, 2, 0.5, 0.25}, {"down", -0.1, 2, 0.5, 0.25}};
  return g;
}

TEST(GenerationText, TokensAreALineForEachSequence) { EXPECT_EQ(new_tokens(some()), "40 50\n8 9\n"); }

TEST(GenerationText, Summary) {
  EXPECT_EQ(summary(some()),
            "small (random, seed 1), 2 prompts of 1 to 3 tokens, 4 tokens new: 3.0 ms until the first\n"
            "1118.6 tokens a second; a step takes 99.0 us (98.2 to 99.8, 18 steps)\n"
            "it reads 198.0 MB, 2000 GB/s; reading them alone takes 49.5 us: 2.00 times that\n"
            "a layer of 2, us:     waits  reads   ends  apart    all\n"
            "  qkv                  1.00   2.00   0.50   0.25   3.75\n"
            "  down                -0.10   2.00   0.50   0.25   2.65\n"
            "                                                   6.40\n"
            "NVIDIA H200, driver 580.1, CUDA 13.0, 1.98 GHz\n");
  auto one = some();
  one.sequences.pop_back();
  one.step_us.clear(), one.steps.clear(), one.operators.clear();
  EXPECT_EQ(summary(one),
            "small (random, seed 1), 1 prompt of 3 tokens, 2 tokens new: 3.0 ms until the first\n"
            "NVIDIA H200, driver 580.1, CUDA 13.0, 1.98 GHz\n");
}

}  // namespace
}  // namespace tessera
