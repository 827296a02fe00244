// SPDX-License-Identifier: Apache-2.0
// A model's decoder layer through every command that needs no GPU.
#include <gmock/gmock.h>

#include "cli/program.hpp"

namespace tessera {
namespace {

using testing::HasSubstr;

struct LayerBlock : CommandLine {};

TEST_F(LayerBlock, PlansOfModelsAreWhatTheyWere) {
  for (std::string const model : {"gpt-3-145b --tp 8", "llama-3-8b"}) {
    auto const arguments = "plan " + model + " --block layer --tokens 1024 --machine h200 --alternatives 1";
    expect_golden("$ tessera " + arguments + "\n" + good(arguments).out,
                  "tests/golden/layer_" + model.substr(0, model.find(' ')) + ".txt");
  }
}

TEST_F(LayerBlock, EveryModelIsChecked) {
  for (auto const* model : {"gpt-3-145b --tp 8", "llama-65b --tp 8", "llama-3.2-1b", "llama-3.2-3b",
                            "llama-3-8b --tp 2", "llama-3-70b --tp 8", "qwen2.5-0.5b", "qwen2.5-7b --tp 4",
                            "qwen2.5-72b --tp 8", "qwen3-0.6b", "qwen3-4b", "qwen3-8b", "gpt2"})
    EXPECT_THAT(good("check " + std::string(model) + " --block layer --tokens 500 --sequences 3").out,
                HasSubstr("tile pairs"));
}

TEST_F(LayerBlock, PromptsOfUnequalLengthGoThroughEveryCommand) {
  for (auto const* block : {"layer", "fused_attention"}) {
    auto const sizes = std::string("llama-3.2-1b --block ") + block + " --prompts 512,128,1000,1";
    EXPECT_THAT(good("check " + sizes).out, HasSubstr("tile pairs"));
    good("plan " + sizes + " --machine h200 -o plan.json --header plan.cuh");
    EXPECT_THAT(read_text(folder / "plan.json"), HasSubstr("\"offsets\""));
    for (auto const* command :
         {"simulate plan.json --machine h200", "explain plan.json", "generate plan.json"})
      EXPECT_THAT(good(command).out, HasSubstr("attention"));
  }
}

// Layers are alike: all of them take as long as so many of one, but for what begins and ends.
TEST_F(LayerBlock, AllLayersOfAModelArePlannedAsOneChain) {
  auto const time = [&](std::string const& more) {
    auto const said =
        good("plan llama-3.2-1b --block layer --tokens 512 --machine h200 -o plan.json" + more).out;
    EXPECT_THAT(said, HasSubstr("predicted "));
    return std::stod(said.substr(said.find("predicted ") + 10));
  };
  auto const one = time(""), all = time(" --layers all");
  EXPECT_NEAR(all / one, 16, 1);
  EXPECT_THAT(good("explain plan.json").out, HasSubstr("down_15"));
  EXPECT_THAT(good("simulate plan.json --machine h200").out, HasSubstr("attention_norm_15"));
  EXPECT_THAT(good("check llama-65b --tp 8 --block layer --prompts 900,100 --layers 80").out,
              HasSubstr("gate_up_79"));
}

// What can be planned, and no run launches.
TEST_F(LayerBlock, SaysWhatNoRunLaunches) {
  std::string const sizes = " --sequences 4 --cached 1024 --tp 8";
  EXPECT_THAT(
      run("plan llama-65b --block fused_attention" + sizes).err,
      testing::EndsWith("note: no run launches attention with one new token behind cached ones in fp16, "
                        "1 query head of 128 to a key head: there are kernels for bf16, heads of 64, 96 "
                        "and 128, and up to 8 query heads to a key head\n"));
  EXPECT_THAT(
      run("check llama-65b --block layer --tokens 2 --cached 1024").err,
      testing::StartsWith("note: no run launches attention with 1024 cached tokens, whose keys lie apart "
                          "from those of 2 new ones: plan and simulate it; run one new token"));
  EXPECT_THAT(run("plan gpt2 --block fused_attention --tokens 64 --mask all").err,
              HasSubstr("note: no run launches attention with no mask in 64 tokens"));
  for (auto const* other :
       {"check llama-65b --dtype bf16 --block layer --cached 1024 --tp 8", "check llama-65b --block layer",
        "check llama-65b --block attention --cached 1024",
        "check llama-65b --block fused_attention --tokens 512"})
    EXPECT_EQ(run(other).err, "") << other;
}

TEST_F(LayerBlock, GoesThroughEveryCommand) {
  good(
      "plan qwen3-0.6b --block layer --tokens 100 --cached 100 --sequences 2 --machine h200 -o plan.json "
      "--header plan.cuh");
  for (auto const* command :
       {"simulate plan.json --machine h200", "explain plan.json", "generate plan.json"}) {
    auto const said = good(command).out;
    for (auto const* stage : {"attention_norm", "turn", "mlp_norm", "down"})
      EXPECT_THAT(said, HasSubstr(stage));
  }
  EXPECT_THAT(read_text(folder / "plan.cuh"), HasSubstr("tessera/sync.cuh"));
}

// Its stages are one tile each for the plan, and many blocks for the GPU.
TEST_F(LayerBlock, OfAStepSaysWhoCutsTheGrid) {
  good("plan llama-3-8b --block layer --tokens 1 --cached 100 --machine h200 -o plan.json");
  auto const header = good("generate plan.json").out;
  for (auto const* stage : {"2. qkv", "4. attention", "8. down"})
    EXPECT_THAT(header, HasSubstr(std::string(stage) + ": a launch that cuts its own grid;"));
  EXPECT_THAT(header, HasSubstr("1. attention_norm: 1 x 1 tiles, 1 blocks of 256 threads;"));
}

}  // namespace
}  // namespace tessera
