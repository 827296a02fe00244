// SPDX-License-Identifier: Apache-2.0
// Names in generated headers: valid, distinct, and refused where the header needs them itself.
#include <gtest/gtest.h>

#include "generate/examples.hpp"
#include "generate/names.hpp"
#include "support/cases.hpp"
#include "support/header_names.hpp"
#include "tessera/generate/generate.hpp"

namespace tessera {
namespace {

using support::HeaderNames;

std::vector<Plan> all_examples() {
  return {examples::mlp("TileSync", Mechanism::wait_kernel),
          examples::attention(),
          examples::convolution(),
          examples::fused(true),
          examples::fused(false),
          examples::mixed()};
}

/// The header's problem, or the code of the refusal.
std::string outcome(Plan const& plan) {
  auto const header = generate_header(plan);
  return header ? HeaderNames::problem_of(*header) : header.error().front().code;
}

TEST(HeaderNames, PartsAreJoinedByOneUnderscore) {
  EXPECT_EQ(generate::joined("a", "tickets"), "a_tickets");
  EXPECT_EQ(generate::joined("a_", "tickets"), "a_tickets");
  EXPECT_EQ(generate::joined("", "tickets"), "_tickets");  // of a stage that is refused for its name
}

TEST(HeaderNames, OfTheExamplesAreRight) {
  for (auto const& plan : all_examples()) EXPECT_EQ(outcome(plan), "") << plan.pipeline.name;
}

TEST(HeaderNames, TheLexerFindsWhatIsWrong) {
  EXPECT_EQ(HeaderNames::problem_of(
                "struct a { static int b = 1; using c = int; }; namespace d { } namespace d { }"),
            "");
  EXPECT_EQ(HeaderNames::problem_of("struct a { int a = 1; };"), "member \"a\" of a struct of that name");
  EXPECT_EQ(HeaderNames::problem_of("struct a { int b = 1; int b = 2; };"), "\"b\" is declared twice");
  EXPECT_EQ(HeaderNames::problem_of("namespace a { } struct a { };"), "\"a\" is declared twice");
  EXPECT_EQ(HeaderNames::problem_of("struct a__b { };"), "\"a__b\" is reserved");
  EXPECT_EQ(HeaderNames::problem_of("struct int { };"), "\"int\" is no identifier");
  EXPECT_EQ(HeaderNames::problem_of("namespace a { struct b { }; struct a { using c = a::b; }; }"),
            "no \"b\" there");
  EXPECT_EQ(HeaderNames::problem_of("int f(int y) { int y = 1; }"), "\"y\" is declared twice");
  EXPECT_EQ(HeaderNames::problem_of("static_assert(1, \"a\n\");"), "a string without an end");
}

TEST(HeaderNames, EveryWordOfAHeaderAsAStageGivesAHeaderOrARefusal) {
  int number = 0;
  for (auto const& plan : all_examples()) {
    auto const header = generate_header(plan);
    ASSERT_TRUE(header);
    auto const words = support::words_of_header(*header);
    for (std::size_t s = 0; s < plan.pipeline.stages.size(); ++s)
      for (auto const& word : std::set<std::string>(words.begin(), words.end()))
        for (auto const& name :
             {word, word + "_", plan.pipeline.name, plan.pipeline.stages[0].name + "_tickets"}) {
          if (support::k_sanitized && number++ % 7 != 0) continue;
          auto named = plan;
          named.pipeline.stages[s].name = name;
          auto const said = outcome(named);
          EXPECT_TRUE(said == "" || said == "E0401" || said == "E0402")
              << name << " in " << plan.pipeline.name << ": " << said;
        }
  }
}

}  // namespace
}  // namespace tessera
