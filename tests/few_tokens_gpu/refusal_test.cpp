// SPDX-License-Identifier: Apache-2.0
// What a chain of MLPs, and products of other loops, refuse before they ask for a GPU (E0565).
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "kernels/few_tokens/mlp_chain.hpp"
#include "kernels/few_tokens/product_stage.hpp"

namespace tessera::few_tokens {
namespace {

using testing::HasSubstr;

/// Addresses that nobody follows.
void* address(std::uintptr_t value) { return reinterpret_cast<void*>(value); }
MlpChainBuffers buffers() {
  MlpChainBuffers result;
  result.x[0] = address(0x1000), result.x[1] = address(0x2000), result.h = address(0x3000);
  result.weights = {{address(0x4000), address(0x5000)}};
  return result;
}
mlp::Shape shape(int tokens, int model = 256, int hidden = 128) { return {tokens, model, hidden}; }

void expect_refused(mlp::Shape const& of, MlpChainBuffers const& at, MlpChainConfig const& config,
                    std::string const& words) {
  auto const chain = MlpChain::make(of, at, config);
  ASSERT_FALSE(chain) << words;
  EXPECT_EQ(chain.error().front().code, "E0565") << words;
  EXPECT_THAT(to_text(chain.error()), HasSubstr(words));
}

TEST(FewTokensRefusal, NumbersOfTokens) {
  for (int const tokens : {-1, 0, 65, 128})
    expect_refused(shape(tokens), buffers(), {}, "a chain of MLPs for " + std::to_string(tokens) + " tokens");
}

TEST(FewTokensRefusal, Sizes) {
  for (auto const& [model, hidden] :
       {std::pair{0, 64}, {64, 0}, {32, 64}, {64, 100}, {-64, 64}, {72, 64}, {2 << 20, 64}, {64, 2 << 20}})
    expect_refused(shape(1, model, hidden), buffers(), {},
                   "of model " + std::to_string(model) + " and hidden " + std::to_string(hidden));
}

TEST(FewTokensRefusal, TokensInDataForMany) {
  MlpChainConfig config;
  config.tokens_in_data = true;
  expect_refused(shape(8), buffers(), config, "results of 8 tokens as words that carry the iteration");
}

TEST(FewTokensRefusal, AResidualOfWords) {
  MlpChainConfig config;
  config.tokens_in_data = true;
  auto const chain = MlpChain::make(shape(1), buffers(), config, {0, true});
  ASSERT_FALSE(chain);
  EXPECT_THAT(to_text(chain.error()), HasSubstr("a residual beside results as words"));
}

TEST(FewTokensRefusal, Buffers) {
  auto const refused = [](auto const& change) {
    auto at = buffers();
    change(at);
    expect_refused(shape(1), at, {}, "a buffer of a chain of MLPs is missing or not 16-byte aligned");
  };
  refused([](auto& at) { at.x[0] = nullptr; });
  refused([](auto& at) { at.x[1] = address(0x2008); });
  refused([](auto& at) { at.h = nullptr; });
  refused([](auto& at) { at.weights.clear(); });
  refused([](auto& at) { at.weights[0].w1 = address(0x4002); });
  refused([](auto& at) { at.weights.push_back({address(0x6000), nullptr}); });
}

ProductStage product(int features, int depth) {
  ProductStage result;
  result.product.features = features, result.product.depth = depth, result.product.tokens = 1;
  result.weights = {address(0x1000)}, result.inputs = {address(0x2000)}, result.outputs = {address(0x3000)};
  return result;
}
void expect_refused(ProductStage const& stage, int tiles, ProductOptions const& options,
                    std::string const& words, int columns = 8) {
  auto const stages = product_stages({{}, stage}, gpu::ElementType::bf16, tiles, columns, options);
  ASSERT_FALSE(stages) << words;
  EXPECT_EQ(stages.error().front().code, "E0565") << words;
  EXPECT_THAT(to_text(stages.error()), HasSubstr(words));
}

TEST(FewTokensRefusal, InputThatWarpsWhichComputeCannotFetch) {
  auto stage = product(64, 64);
  expect_refused(stage, 1, {.direct = true}, "a product without words among those");
  unsigned words[4];
  stage.inputs.assign(2, address(0x2000));
  stage.product.input_words[0] = stage.product.input_words[1] = words;
  expect_refused(stage, 1, {.direct = true},
                 "2 copies of an input that warps which compute fetch themselves");
}

TEST(FewTokensRefusal, TilesOfAProductBeyond32Bits) {
  constexpr int large = 1 << 20;
  expect_refused(product(large, 64), 2048, {}, "1048576 elements of a product in 2048 tiles");
  expect_refused(product(64, 64), 0, {}, "64 elements of a product in 0 tiles");
  auto stage = product(64, large);
  stage.product.producer_tiles = 2048;
  expect_refused(stage, 4, {}, "1048576 elements of a product in 2048 tiles");
  stage.product.producer_tiles = -1;
  expect_refused(stage, 4, {}, "1048576 elements of a product in -1 tiles");
  // One fewer of both is asked for its rows and its room instead.
  expect_refused(product(large, 64), 2047, {}, "rows of weights for each of 2047 blocks");
  stage.product.producer_tiles = 2047;
  expect_refused(stage, 1, {.slots = 2}, "there is room for 2 slots");
}

TEST(FewTokensRefusal, RingsOfAProduct) {
  // 128 rows: 16 KB for each k-block, 32 at most for one token, and 8 for many.
  expect_refused(product(128, 4096), 1, {.slot_bytes = 1 << 20},
                 "there is room for 0 slots of 524288 bytes beside 4");
  auto eight = product(128, 4096);
  eight.product.tokens = 8;
  expect_refused(eight, 1, {.slot_bytes = 1 << 20}, "there is room for 0 slots of 131072 bytes beside 4");
  expect_refused(product(128, 4096), 1, {.slots = 2, .late_slots = 16},
                 "there is room for 2 slots of 65536 bytes beside 13");
  expect_refused(product(128, 4096), 0x100, {.slots = 1, .late_slots = 99},
                 "there is room for 1 slots of 4096 bytes beside 16");
}

TEST(FewTokensRefusal, NumbersBelowZero) {
  MlpChainConfig config;
  config.workers = -1;
  expect_refused(shape(1), buffers(), config, "a chain of MLPs by -1 workers");
  for (auto const& options : {ProductOptions{-1, 0, 0, 0}, {0, -1, 0, 0}, {0, 0, -1, 0}, {0, 0, 0, -1}})
    expect_refused(product(64, 64), 1, options, "rings of products with -1 slots");
}

TEST(FewTokensRefusal, Pairs) {
  MlpChainConfig config;
  config.cluster_blocks = 2;
  config.tokens_in_data = true;
  expect_refused(shape(1), buffers(), config, "as words that carry the iteration, in pairs of blocks");
  auto sixteen = product(1024, 1024);
  sixteen.product.tokens = 16;
  expect_refused(sixteen, 16, {.cluster_blocks = 4}, "share their depth in clusters of 4 blocks", 16);
  expect_refused(sixteen, 15, {.cluster_blocks = 2}, "no product can share its depth in a pair of 15 blocks",
                 16);
  expect_refused(sixteen, 8, {.cluster_blocks = 2}, "no product can share its depth in a pair of 8 blocks",
                 16);
}

TEST(FewTokensRefusal, AProductNamesItsStage) {
  auto const stages = product_stages({{}, product(64, 100)}, gpu::ElementType::bf16, 4, 8);
  ASSERT_FALSE(stages);
  EXPECT_EQ(to_text(stages.error()),
            "error E0565: a product of 64 features and depth 100\n"
            "   stage 1 of the loop's body\n"
            "   hint: ask for 64 features or more, and a depth that is a multiple of 64, both up to 2^20");
}

TEST(FewTokensRefusal, MatricesAndWordsOfAProduct) {
  auto stage = product(64, 64);
  stage.outputs.clear();
  expect_refused(stage, 1, {}, "a matrix of a product is missing");
  unsigned words[4];
  stage.product.output_words[0] = words;  // instead of outputs
  expect_refused(stage, 1, {.slots = 1}, "there is room for 1 slots");
  stage.product.input_words[0] = words;
  expect_refused(stage, 1, {}, "input of 1 tokens as words that carry the iteration", 16);
  stage.product.tokens = 3;
  expect_refused(stage, 1, {}, "input of 3 tokens as words that carry the iteration");
}

TEST(FewTokensRefusal, RowsOfAFeature) {
  for (int const rows : {-1, 0, 2, 3}) {
    auto stage = product(64, 64);
    stage.product.rows_per_feature = rows;
    expect_refused(stage, 1, {}, "a product with " + std::to_string(rows) + " rows of weights for a feature");
  }
  for (int const rows : {-1, 0, 1, 3}) {
    auto stage = product(64, 64);
    stage.product.rows_per_feature = rows, stage.product.activation = Activation::swiglu;
    expect_refused(stage, 1, {}, std::to_string(rows) + " rows of weights for a feature and SwiGLU");
  }
}

TEST(FewTokensRefusal, ABiasBesideAnActivation) {
  float const bias[64] = {};
  float stream[64] = {};
  auto gated = product(64, 64);
  gated.product.bias = bias, gated.product.activation = Activation::swiglu,
  gated.product.rows_per_feature = 2;
  expect_refused(gated, 1, {}, "a product with a bias and SwiGLU");
  auto gelu = product(64, 64);
  gelu.product.bias = bias, gelu.product.activation = Activation::gelu;
  expect_refused(gelu, 1, {.slots = 1}, "there is room for 1 slots");  // it is taken so far
  gelu.product.stream = stream;
  expect_refused(gelu, 1, {}, "a product with GELU, a bias and a residual");
}
/// As a vocabulary may be.
TEST(FewTokensRefusal, FeaturesOfAnyNumber) {
  expect_refused(product(50257, 64), 1024, {.slots = 1}, "there is room for 1 slots");
  expect_refused(product(63, 64), 1, {}, "a product of 63 features and depth 64");
}

TEST(FewTokensRefusal, NumbersOfCopiesAndDistances) {
  auto const refused = [](auto Product::*field, std::initializer_list<short> values,
                          std::string const& words) {
    for (short const value : values) {
      auto stage = product(64, 64);
      stage.product.*field = value;
      expect_refused(stage, 1, {}, fmt::format(fmt::runtime(words), value));
    }
  };
  refused(&Product::output_copies, {-1, 0, 5}, "a product with {} copies of its output");
  refused(&Product::residual_copies, {-1, 0, 5}, "a product with {} copies of its residual");
  refused(&Product::input_distance, {-1}, "a product whose input is {} iterations older");
  refused(&Product::residual_distance, {-1}, "a product whose residual is {} iterations older");
}

TEST(FewTokensRefusal, CopiesOfWordsAndResidualsThatAreMissing) {
  unsigned words[4];
  auto stage = product(64, 64);
  stage.inputs.assign(2, address(0x2000));
  stage.product.input_words[0] = words;
  expect_refused(stage, 1, {}, "a product has 2 copies, and input as words for some of them");
  stage.product.input_words[1] = words;
  expect_refused(stage, 1, {.slots = 1}, "there is room for 1 slots");  // both are there
  stage.product.input_words[0] = nullptr;
  expect_refused(stage, 1, {}, "a product has 2 copies, and input as words for some of them");
  stage.inputs.assign(5, address(0x2000));
  for (auto& one : stage.product.input_words) one = words;
  expect_refused(stage, 1, {}, "a product has 5 copies, and input as words for some of them");

  stage = product(64, 64);
  stage.outputs.assign(2, address(0x3000));
  stage.product.output_words[0] = words;
  expect_refused(stage, 1, {}, "a product has 2 copies, and results as words for some of them");
  stage.outputs.clear();
  stage.product.output_copies = 3;
  expect_refused(stage, 1, {}, "a product has 3 copies, and results as words for some of them");

  stage = product(64, 64);
  stage.product.residual[1] = words, stage.product.residual_copies = 2;
  expect_refused(stage, 1, {}, "a product has 2 copies, and a residual for some of them");
}

}  // namespace
}  // namespace tessera::few_tokens
