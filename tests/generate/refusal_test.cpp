// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "generate/examples.hpp"
#include "generate/names.hpp"
#include "tessera/generate/generate.hpp"

namespace tessera {
namespace {

std::string refusal(Plan const& plan) {
  auto const header = generate_header(plan);
  return header.has_value() ? "" : to_text(header.error());
}

TEST(GenerateHeader, RefusesNamesThatAreNone) {
  auto plan = examples::mlp("RowSync", Mechanism::pdl_tiles);
  plan.pipeline.stages[0].name = "gemm 1";
  plan.pipeline.stages[1].operands[1].name = "operator";
  EXPECT_EQ(refusal(plan),
            "example.cpp:10: error E0401: stage name \"gemm 1\" is not a name that C++ allows\n"
            "   hint: use letters, digits and single underscores, starting with a letter; no C++ keyword\n"
            "example.cpp:11: error E0401: operand name \"operator\" is not a name that C++ allows\n"
            "   hint: use letters, digits and single underscores, starting with a letter; no C++ keyword");
}

TEST(GenerateHeader, RefusesNamesThatAreTaken) {
  auto plan = examples::mlp("RowSync", Mechanism::pdl_tiles);
  plan.pipeline.stages[1].name = "gemm1";
  EXPECT_EQ(refusal(plan),
            "example.cpp:11: error E0402: two stages are named \"gemm1\"\n"
            "   the first is at example.cpp:10\n"
            "   hint: give every stage its own name");
  plan.pipeline.stages[1].name = "chain";
  EXPECT_EQ(refusal(plan),
            "example.cpp:11: error E0402: stage name \"chain\" is used by the generated header itself\n"
            "   hint: give the stage another name");
}

TEST(GenerateHeader, RefusesPlansThatContradictThemselves) {
  std::string const hint = "\n   hint: generate headers from plans that choose() or parse_plan() returned";
  auto const sound = examples::attention();
  auto plan = sound;
  plan.stages[2].order.table[3] = 4;
  EXPECT_EQ(refusal(plan),
            "example.cpp:12: error E0403: tile order \"ends exchanged\" of stage softmax does not name each "
            "of its 24 tiles once" +
                hint);
  plan = sound;
  plan.stages.pop_back();
  EXPECT_EQ(
      refusal(plan),
      "example.cpp:9: error E0403: the plan has 2 stages and 3 dependences, its pipeline 3 and 3" + hint);
  plan = sound;
  plan.dependences[2].semaphore_set = 0;  // a set of another producer
  EXPECT_EQ(refusal(plan), "example.cpp:22: error E0403: dependence 2 does not fit the plan's stages" + hint);
  plan = sound;
  plan.semaphores[1].count = 5;
  EXPECT_EQ(refusal(plan),
            "example.cpp:9: error E0403: semaphore set 1 does not fit the grid of its producer" + hint);
  plan = sound;
  plan.pipeline.stages[1].grid[0].extent = std::int64_t{1} << 40;
  EXPECT_NE(refusal(plan).find("stage scores needs 1 to 4 dimensions and 1 to 2^31 - 1 blocks"),
            std::string::npos);
  plan = examples::fused(true);
  plan.launches[0].tickets[1] = plan.launches[0].tickets[0];
  EXPECT_EQ(refusal(plan), "example.cpp:9: error E0403: position 0 of gate_up has two tickets" + hint);
}

TEST(GenerateHeader, RefusesAStageOfWhichTheLastSplitPosts) {
  auto plan = examples::attention();
  auto& poster = plan.pipeline.stages[static_cast<std::size_t>(plan.semaphores[0].producer)];
  poster.last_split_posts = true;
  EXPECT_EQ(refusal(plan), "");
  poster.splits = 2;
  EXPECT_EQ(refusal(plan).substr(0, refusal(plan).find("\n   hint", 2)),
            "example.cpp:10: error E0404: the last of " + poster.name +
                "'s 2 splits posts for all, and the stages of a header post for themselves");
}

TEST(GenerateHeader, TextOfTheUserCannotLeaveItsPlace) {
  auto plan = examples::mlp("RowSync", Mechanism::pdl_tiles);
  plan.machine = "v100\n#error from a machine's name \\";
  plan.pipeline.stages[0].where.file = "a\"b\\c\n.cpp";
  plan.pipeline.stages[1].grid[0].name = "x\nint y;";
  auto const header = generate_header(plan);
  ASSERT_TRUE(header.has_value());
  EXPECT_EQ(header->find("\n#error"), std::string::npos);
  EXPECT_EQ(header->find("\nint y;"), std::string::npos);
  EXPECT_NE(header->find("a\\\"b\\\\c?.cpp"), std::string::npos);
}

TEST(Names, BecomeIdentifiers) {
  using namespace generate;
  EXPECT_EQ(as_identifier("llama-65b mlp, 768 tokens, tp 8"), "llama_65b_mlp_768_tokens_tp_8");
  EXPECT_EQ(as_identifier("3x3"), "plan_3x3");
  EXPECT_EQ(as_identifier("..."), "plan");
  EXPECT_EQ(as_identifier("class"), "class_plan");
  EXPECT_EQ(as_identifier("tessera"), "tessera_plan");
  for (auto const* good : {"a", "gemm1", "Q_k", "x_"}) EXPECT_TRUE(is_identifier(good)) << good;
  for (auto const* bad : {"", "1a", "a b", "a__b", "_a", "class", "a-b", "caf\xc3\xa9", "linux"})
    EXPECT_FALSE(is_identifier(bad)) << bad;
}

}  // namespace
}  // namespace tessera
