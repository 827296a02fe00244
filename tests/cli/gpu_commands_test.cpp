// SPDX-License-Identifier: Apache-2.0
// tune and run where the program that launches kernels is missing, or is another one that says how it was
// called.
#include "cli/alone.hpp"

namespace tessera {
namespace {

TEST_F(AloneInAFolder, SaysWhatIsMissing) {
  auto const said = says("tune llama-65b --tp 8");
  EXPECT_EQ(said.exit, 3);
  EXPECT_EQ(said.out, "");
  EXPECT_THAT(said.err, testing::StartsWith(
                            "error E0936: tessera tune needs tessera-gpu, which is not beside this program"));
  EXPECT_THAT(says("run llama-65b").err, testing::HasSubstr("tessera run needs tessera-gpu"));
}

TEST_F(AloneInAFolder, HandsOverAFileForEachSize) {
  put_beside("tessera-gpu", "echo \"$@\"; grep -h '\"name\": \"llama' \"$4\" \"$5\"; exit 1\n");
  auto const llama = says("tune llama-65b --tp 8 --tokens 64,1 --quick --cache here.json --for steady");
  EXPECT_EQ(llama.exit, 1);
  EXPECT_THAT(llama.out,
              testing::MatchesRegex("tune --name llama-65b [^ ]+-0.json [^ ]+-1.json --cache here.json "
                                    "--for steady --quick\n"
                                    " *\"name\": \"llama-65b mlp, 64 tokens, tp 8\",\n"
                                    " *\"name\": \"llama-65b mlp, 1 token, tp 8\",\n"));
  // Eleven usual numbers of tokens.
  put_beside("tessera-gpu", "shift 3; echo $#; grep -h type \"$1\"\n");
  EXPECT_THAT(says("run gpt-3-145b --tp 8 --dtype fp16").out,
              testing::MatchesRegex("11\n *\"type\": \"fp16\",\n"));
  put_beside("tessera-gpu", "grep -h '\"name\": \"[a-z]*\",$' \"$4\"\n");
  EXPECT_THAT(says("tune lora").out, testing::MatchesRegex(" *\"name\": \"lora\",\n(.*\n)*"));
}

TEST_F(AloneInAFolder, RunsWhatIsPlanned) {
  // The companion gets a plan's file and nothing else; the first is wrong.
  put_beside(
      "tessera-gpu",
      "echo \"$1\"; grep -m2 -E '^ {2,4}\"(schema|name)\"' \"$2\"; grep -q ' 768 tokens' \"$2\" && exit 1; "
      "exit 0\n");
  auto const said = says("run llama-65b --tp 8 --tokens 768,2048 --planned");
  EXPECT_EQ(said.exit, 1) << said.err;
  EXPECT_THAT(said.out, testing::MatchesRegex("run\n[^\n]*tessera.plan/2[^\n]*\n[^\n]*768 tokens[^\n]*\n"
                                              "run\n[^\n]*tessera.plan/2[^\n]*\n[^\n]*2048 tokens[^\n]*\n"));
  // Every kernel of such a plan is compiled: a gate is in an epilogue, and swapped tiles have their clusters.
  put_beside("tessera-gpu", "grep -o '\"kernel\": \"[a-z_0-9]*\"' \"$2\"\n");
  EXPECT_THAT(says("run gpt-3-145b --tp 8 --tokens 300 --planned").out, testing::Not(testing::IsEmpty()));
  put_beside("tessera-gpu", "echo \"$1 $3\"\n");
  EXPECT_EQ(says("run llama-65b --tp 8 --tokens 768 --planned --quick").out, "run --quick\n");
  auto const nowhere = says("run llama-65b --tokens 768 --planned --machine nowhere");
  EXPECT_THAT(nowhere.err, testing::HasSubstr("error E0602"));
  EXPECT_EQ(nowhere.out, "");
}

TEST_F(AloneInAFolder, HandsOverLayersAndAttentionPlannedAndNot) {
  put_beside("tessera-gpu", "grep -o '\"kernel\": \"[a-z_0-9]*\"' \"$2\" | tr '\\n' ' '\n");
  EXPECT_THAT(says("run llama-3-8b --block layer --tokens 128 --planned").out,
              testing::MatchesRegex(".*norm_4096.*turn_heads_128.*attention_128.*cublaslt.*norm_4096.*"));
  EXPECT_THAT(says("run gpt2 --block fused_attention --tokens 128 --planned").out,
              testing::HasSubstr("attention_64"));
  put_beside("tessera-gpu", "grep -o '\"offsets\"' \"$2\" | head -1; echo \"$3 $4\"\n");
  EXPECT_EQ(says("run gpt2 --block layer --prompts 100,30 --planned").out, "\"offsets\"\n--prompts 100,30\n");
  put_beside("tessera-gpu", "grep -o '\"kind\": \"[a-z_]*\"' \"$4\" | tr '\\n' ' '\n");
  EXPECT_THAT(says("run gpt2 --block layer --tokens 128").out,
              testing::AllOf(testing::HasSubstr("turn_heads"), testing::HasSubstr("attention")));
}

TEST_F(AloneInAFolder, RunsAPlansFile) {
  put_beside("tessera-gpu", "echo \"$@\"; exit 1\n");
  ASSERT_EQ(says("plan llama-65b --tp 8 --tokens 64 -o plan.json").exit, 0);
  auto const said = says("run plan.json");
  EXPECT_EQ(said.exit, 1);
  EXPECT_EQ(said.out, "run plan.json\n");
  EXPECT_EQ(says("run plan.json --quick").out, "run plan.json --quick\n");
  EXPECT_EQ(says("run plan.json --prompts 5,8").out, "run plan.json --prompts 5,8\n");
  EXPECT_THAT(says("run plan.json --prompts 5,x").err, testing::HasSubstr("error E0909: --prompts: \"x\""));
  EXPECT_THAT(says("run plan.json --tokens 5").err, testing::HasSubstr("error E0906: --tokens is for"));
  EXPECT_EQ(says("run plan.json --timeline t.json --html t.html").out,
            "run plan.json --timeline t.json --html t.html\n");
}

TEST_F(AloneInAFolder, HandsOverWhereATimelineGoesOfOneSize) {
  put_beside("tessera-gpu", "echo \"$@\"\n");
  EXPECT_THAT(says("run llama-65b --tp 8 --tokens 768 --timeline t.json").out,
              testing::MatchesRegex("run --name llama-65b [^ ]+-0.json --timeline t.json\n"));
  EXPECT_THAT(says("run llama-65b --tp 8 --tokens 768 --planned --html t.html").out,
              testing::MatchesRegex("run [^ ]+-0.json --html t.html\n"));
  auto const two = says("run llama-65b --tp 8 --tokens 1,768 --planned --html t.html");
  EXPECT_EQ(two.exit, 2);
  EXPECT_EQ(two.err,
            "error E0906: --html is of one run, and 2 sizes are run\n"
            "   hint: give one size (--tokens 768), or one plan\n");
}

TEST_F(AloneInAFolder, BenchesHandOverWhatTheyAreAskedFor) {
  EXPECT_THAT(says("bench mlp gpt-3-145b").err, testing::HasSubstr("tessera bench mlp needs tessera-bench"));
  EXPECT_THAT(says("bench overhead").err, testing::HasSubstr("tessera bench overhead needs copy_chain"));
  EXPECT_THAT(says("bench ablation").err, testing::HasSubstr("tessera bench ablation needs ablation"));
  put_beside("ablation", "echo ablation \"$@\"\n");
  EXPECT_EQ(says("bench ablation -o a.json").out, "ablation --json a.json\n");
  put_beside("tessera-bench", "echo \"$@\"\n");
  put_beside("copy_chain", "echo chain \"$@\"; exit 1\n");
  EXPECT_THAT(says("bench mlp gpt-3-145b --tp 8 --tokens 768 -o r.json --quick").out,
              testing::MatchesRegex("bench --name gpt-3-145b [^ ]+-0.json --output r.json --quick\n"));
  EXPECT_THAT(says("bench workload lora").out, testing::MatchesRegex("bench --name lora [^ ]+-0.json\n"));
  auto const overhead = says("bench overhead -o r.json");
  EXPECT_EQ(overhead.out, "chain --json r.json\n");
  EXPECT_EQ(overhead.exit, 1);
}

}  // namespace
}  // namespace tessera
