// SPDX-License-Identifier: Apache-2.0
// Chains of MLPs as the simulator sees them: how they are cut, on paper.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "kernels/few_tokens/chain_roles.hpp"
#include "tessera/measure/machine_json.hpp"
#include "tessera/simulate/role_json.hpp"

namespace tessera::few_tokens {
namespace {

struct FewTokens : testing::Test {
  MachineProfile h200 = machine("h200").value();
  mlp::Shape mixtral{1, 4096, 3584, mlp::Form::swiglu};

  static MlpChainConfig config(bool words, int kilobytes, int in_flight, int late_slots) {
    MlpChainConfig result;
    result.tokens_in_data = words;
    result.slot_bytes = 1024 * kilobytes;
    result.in_flight = in_flight;
    result.late_slots = late_slots;
    return result;
  }
};

TEST_F(FewTokens, AChainIsCutAsTheKernelCutsIt) {
  auto const loop = chain_roles(mixtral, config(true, 28, 2, 8), h200, 8);
  ASSERT_TRUE(loop) << to_text(loop.error());
  // 56 rows of gate and up at most: 4 k-blocks of 64 are 28 KB. 32 rows of the second product: 6 are 24 KB.
  auto const &up = loop->work[0], &down = loop->work[1];
  EXPECT_EQ(up.slots, 4096 / 256);
  EXPECT_EQ(up.loads_per_slot, 1);
  EXPECT_NEAR(up.slots * up.slot_bytes, 2.0 * 2 * 3584 * 4096 / 132, 1);
  EXPECT_EQ(down.slots, 10);  // of 9.3
  EXPECT_NEAR(down.slots * down.slot_bytes, 2.0 * 3584 * 4096 / 132, 1);
  // A warp takes 2 of 16 steps of the depth for 4 tiles of 16 rows, and 3 of 24 for 2.
  EXPECT_NEAR(up.slot_ns, 8 * 31, 0.01);
  EXPECT_NEAR(down.slot_ns, 6 * 31, 0.01);
  EXPECT_EQ(up.late_warps, 4);
  // 16 k-blocks at most: 4 and 2 slots of weights.
  EXPECT_EQ(up.slots_per_late_slot, 4);
  EXPECT_EQ(down.slots_per_late_slot, 2);
  EXPECT_EQ(up.late_slots_at_once, 1);
  EXPECT_EQ(down.late_slots_at_once, 1);
  // 227 KB less 8 slots of 2 KB, sums that meet and jobs: 7 slots of 28 KB.
  EXPECT_EQ(loop->rings.slots, 7);
  EXPECT_EQ(loop->rings.in_flight, 2);
  EXPECT_EQ(loop->rings.in_flight_within, 0);
  EXPECT_EQ(loop->rings.late_slots, 8);
}

/// A slot is one load, and has no more rows than its tile.
TEST_F(FewTokens, SlotsHaveNoGaps) {
  mlp::Shape const llama{1, 8192, 2752, mlp::Form::swiglu};
  auto const loop = chain_roles(llama, config(false, 28, 2, 8), h200, 8);
  ASSERT_TRUE(loop) << to_text(loop.error());
  // 42 rows: 5 k-blocks in 26.25 KB, as even as can be 4 of them. 63: 3 in 23.6 KB.
  EXPECT_EQ(loop->work[0].slots, 8192 / 256);
  EXPECT_EQ(loop->work[1].slots, (2752 / 64 + 2) / 3);
  for (auto const& work : loop->work) EXPECT_EQ(work.loads_per_slot, 1);
  Product product;
  product.stage_depth = 4;
  for (int const rows : {1, 8, 42, 121, 128}) {
    product.box_rows = rows;
    EXPECT_EQ(product.slot_bytes(), 128 * 4 * rows);
  }
}

/// Blocks of a pair load as much of the weights as each by itself, and half of the activations.
TEST_F(FewTokens, PairsLoadHalfOfTheActivations) {
  mixtral.tokens = 16;
  auto pairs = config(false, 28, 2, 4);
  auto const alone = chain_roles(mixtral, pairs, h200, 8);
  pairs.cluster_blocks = 2;
  auto const paired = chain_roles(mixtral, pairs, h200, 8);
  ASSERT_TRUE(alone) << to_text(alone.error());
  ASSERT_TRUE(paired) << to_text(paired.error());
  for (std::size_t s = 0; s < 2; ++s) {
    auto const &one = alone->work[s], &of_pair = paired->work[s];
    auto const late = [](RoleWork const& of) {
      return of.late_slot_bytes * ((of.slots + of.slots_per_late_slot - 1) / of.slots_per_late_slot);
    };
    EXPECT_NEAR(of_pair.slots * of_pair.slot_bytes, one.slots * one.slot_bytes, 1) << s;
    EXPECT_NEAR(2 * late(of_pair), late(one), 1) << s;
    EXPECT_GT(of_pair.end_ns, one.end_ns + 400) << s;  // the exchange
  }
}

/// Every element of the weights is multiplied by one block, and every block's part is at most half.
TEST_F(FewTokens, PairsShareTheDepthWithoutGapsAndTwice) {
  for (int const features : {64, 576, 2752, 4096})
    for (int const depth : {128, 2752, 4096})
      for (int const blocks : {2, 100, 132}) {
        Product product;
        product.features = features, product.depth = depth, product.tokens = 16;
        ProductOptions options;
        options.cluster_blocks = 2;
        auto const cut = cut_products({product}, blocks, 16, options);
        int const rows = (features + blocks / 2 - 1) / (blocks / 2);
        ASSERT_EQ(cut.has_value(), rows <= k_most_rows) << rows;
        if (!cut) continue;
        auto const& p = cut->products[0];
        ASSERT_EQ(p.depth_parts, 2);
        EXPECT_EQ(p.box_rows, rows);
        std::vector<int> times(static_cast<std::size_t>(features) * static_cast<std::size_t>(depth / 64));
        for (int tile = 0; tile < blocks; ++tile) {
          auto const of = p.multiplied(tile);
          EXPECT_LE(of.end - of.begin, p.box_rows);
          EXPECT_EQ(of.begin, p.range(tile & ~1).begin);
          EXPECT_EQ(of.end, p.range(tile | 1).end);
          EXPECT_LE(p.range(tile).end - p.range(tile).begin, p.tile_rows);
          int const first = p.first_block(tile), end = std::min(first + p.depth_blocks(), depth / 64);
          for (int f = of.begin; f < of.end; ++f)
            for (int k = first; k < end; ++k) ++times[static_cast<std::size_t>(f * (depth / 64) + k)];
        }
        for (int const one : times) ASSERT_EQ(one, 1) << features << " x " << depth << ", " << blocks;
      }
}

/// GPT-3's second product has 94 rows to a block, 187 to a pair: it is computed as without.
TEST_F(FewTokens, ProductsOfManyRowsAreNotShared) {
  mlp::Shape const gpt3{16, 12288, 6144, mlp::Form::gelu};
  auto products = chain_products(gpt3, 132);
  ProductOptions options;
  options.cluster_blocks = 2;
  auto const cut = cut_products({products.begin(), products.end()}, 132, 16, options);
  ASSERT_TRUE(cut) << to_text(cut.error());
  EXPECT_EQ(cut->products[0].depth_parts, 2);
  EXPECT_EQ(cut->products[0].box_rows, 94);
  EXPECT_EQ(cut->products[1].depth_parts, 1);
  EXPECT_EQ(cut->products[1].box_rows, 94);
}

TEST_F(FewTokens, MoreTokensTakeMoreOfEverything) {
  double before = 0, stored = 0, loaded = 0;
  for (int const tokens : {1, 16, 32, 64}) {
    mixtral.tokens = tokens;
    auto const loop = chain_roles(mixtral, config(false, 28, 0, 8), h200, 8);
    ASSERT_TRUE(loop) << to_text(loop.error());
    EXPECT_EQ(loop->work[0].late_warps, 1);
    auto const& up = loop->work[0];
    int const late_slots = (up.slots + up.slots_per_late_slot - 1) / up.slots_per_late_slot;
    EXPECT_GT(up.slots * up.slot_ns, before);
    EXPECT_GT(up.end_ns, stored);
    EXPECT_GT(late_slots * up.late_slot_bytes, loaded);
    before = up.slots * up.slot_ns, stored = up.end_ns, loaded = late_slots * up.late_slot_bytes;
  }
}

TEST_F(FewTokens, AResidualIsAReadOfTheIterationBefore) {
  auto const plain = plan_chain({}, h200, 132), with = plan_chain({}, h200, 132, {1e-5f, true});
  ASSERT_TRUE(plain) << to_text(plain.error());
  ASSERT_TRUE(with) << to_text(with.error());
  EXPECT_EQ(with->loop.carried.size(), plain->loop.carried.size() + 1);
  EXPECT_EQ(with->plan.launches.size(), 1u);
}

TEST_F(FewTokens, WhatTheChainRefusesIsRefused) {
  auto const refusal = [&](MlpChainConfig const& with) {
    auto const made = chain_roles(mixtral, with, h200, 8);
    return made ? std::string() : to_text(made.error());
  };
  auto few = config(false, 28, 0, 8);
  few.workers = 4;
  EXPECT_EQ(refusal(few),
            "error E0565: 1792 rows of weights for each of 4 blocks\n   stage 0 of the loop's body\n"
            "   hint: at most 128 are multiplied by one block");
  mixtral.tokens = 3;
  EXPECT_EQ(refusal(config(true, 28, 2, 8)),
            "error E0565: results of 3 tokens as words that carry the iteration\n"
            "   hint: ask for it for 1 or 2 tokens");
  mixtral.tokens = 65;
  EXPECT_EQ(refusal(config(false, 28, 2, 8)),
            "error E0565: a chain of MLPs for 65 tokens\n   hint: ask for 1 to 64 tokens");
}

TEST_F(FewTokens, TheExampleIsTheChain) {
  auto const loop = chain_roles(mixtral, config(true, 28, 2, 8), h200, 8);
  ASSERT_TRUE(loop);
  std::ifstream file(TESSERA_SOURCE_DIR "/bench/few_tokens/mixtral_chain.json");
  std::string const text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(print_roles({loop->plan.loop, loop->plan.tokens, 0, loop->work, loop->rings}), text)
      << "write it anew: predict_few_tokens --print";
}

}  // namespace
}  // namespace tessera::few_tokens
