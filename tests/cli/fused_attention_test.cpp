// SPDX-License-Identifier: Apache-2.0
// A model's attention block through every command that needs no GPU.
#include <gmock/gmock.h>

#include "cli/program.hpp"

#include "support/cases.hpp"

namespace tessera {
namespace {

using testing::HasSubstr;

struct FusedAttentionBlock : CommandLine {};

TEST_F(FusedAttentionBlock, PlansOfModelsAreWhatTheyWere) {
  for (std::string const model : {"gpt-3-145b --tp 8", "llama-65b --tp 8", "llama-3-8b", "gpt2"}) {
    auto const arguments =
        "plan " + model +
        " --block fused_attention --tokens 1024 --dtype bf16 --machine h200 --alternatives 1";
    expect_golden("$ tessera " + arguments + "\n" + good(arguments).out,
                  "tests/golden/fused_attention_" + model.substr(0, model.find(' ')) + ".txt");
  }
}

// The library's products, and our attention early: GPT-3's block as the paper has it, where all see all keys.
TEST_F(FusedAttentionBlock, ProductsMayBeALibrarys) {
  auto const block =
      std::string("plan gpt-3-145b --block fused_attention --tokens 512 --tp 8 --machine h200 ");
  auto const library = good(block + "--mask all").out;
  EXPECT_THAT(library, HasSubstr("all keys, tp 8, h200: mixed: qkv > attention | output"));
  EXPECT_THAT(library, testing::ContainsRegex("qkv +1 x 1 .* cublaslt"));
  EXPECT_THAT(library, testing::ContainsRegex("output +1 x 1 .* cublaslt"));
  EXPECT_THAT(good(block + "--mechanism pdl_tiles").out, testing::Not(HasSubstr("  cublaslt  ")))
      << "what waits for tiles";
  EXPECT_THAT(good("plan llama-3-8b --block layer --tokens 512 --machine h200").out,
              testing::Not(testing::ContainsRegex("qkv +1 x 1 .* cublaslt")));
}

TEST_F(FusedAttentionBlock, EveryModelIsCheckedAndPlanned) {
  int number = 0;
  for (auto const* model : {"gpt-3-145b --tp 8", "llama-65b --tp 8", "llama-3.2-1b", "llama-3.2-3b",
                            "llama-3-8b --tp 2", "llama-3-70b --tp 8", "qwen2.5-0.5b", "qwen2.5-7b --tp 4",
                            "qwen2.5-72b --tp 8", "qwen3-0.6b", "qwen3-4b", "qwen3-8b", "gpt2"}) {
    if (support::k_sanitized && number++ % 4 != 0) continue;
    auto const block = std::string(model) + " --block fused_attention --tokens 500 --sequences 3";
    EXPECT_THAT(good("check " + block).out, HasSubstr("tile pairs"));
    EXPECT_THAT(good("plan " + block + " --machine h200").out, HasSubstr("attention_"));
  }
}

TEST_F(FusedAttentionBlock, GoesThroughEveryCommand) {
  good(
      "plan llama-65b --tp 8 --block fused_attention --tokens 1000 --cached 100 --sequences 2 --dtype bf16 "
      "--machine h200 "
      "--mechanism pdl_tiles -o plan.json --header plan.cuh");
  EXPECT_THAT(good("simulate plan.json --machine h200").out, HasSubstr("attention"));
  EXPECT_THAT(good("explain plan.json").out, HasSubstr("attention"));
  EXPECT_THAT(good("generate plan.json").out, HasSubstr("attention"));
  EXPECT_THAT(read_text(folder / "plan.cuh"), HasSubstr("tessera/sync.cuh"));
}

}  // namespace
}  // namespace tessera
