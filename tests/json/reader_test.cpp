// SPDX-License-Identifier: Apache-2.0
#include "json/reader.hpp"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "json/json_text.hpp"

namespace tessera::json {
namespace {

constexpr Codes k_codes{"SYN", "MIS", "VAL", "UNK"};

std::string refusal_of(std::string_view text) {
  auto const document = Document::parse(text, "f.json", k_codes);
  return document ? "accepted" : to_text(document.error());
}

TEST(Reader, knows_the_line_of_every_value) {
  auto document = Document::parse("{\n \"a\": 1\n,\n \"b\": [\n  2,\n  \"x\"]\n}", "f.json", k_codes);
  ASSERT_TRUE(document);
  auto const& root = document->root();
  EXPECT_EQ(root.line, 1);
  EXPECT_EQ(root.find("a")->line, 2);
  EXPECT_EQ(root.find("b")->line, 4);
  EXPECT_EQ(root.find("b")->items()[0].line, 5);
  EXPECT_EQ(root.find("b")->items()[1].line, 6);
}

TEST(Reader, a_number_at_the_end_of_a_line_belongs_to_that_line) {
  auto document = Document::parse("[1\n,2\n]", "f.json", k_codes);
  ASSERT_TRUE(document);
  EXPECT_EQ(document->root().items()[0].line, 1);
  EXPECT_EQ(document->root().items()[1].line, 2);
}

TEST(Reader, refuses_what_is_not_json) {
  EXPECT_THAT(refusal_of("{\n\"a\": }"),
              testing::StartsWith("f.json:2: error SYN: this is not JSON: syntax error"));
  EXPECT_THAT(refusal_of(""), testing::StartsWith("f.json:1: error SYN: this is not JSON"));
  EXPECT_EQ(refusal_of("{\"a\": 1,\n \"a\": 2}"), "f.json:2: error SYN: member \"a\" is given twice");
  EXPECT_EQ(refusal_of(std::string(100000, '[')), "f.json:1: error SYN: nested deeper than 64 levels");
  EXPECT_THAT(refusal_of("[1e999]"), testing::HasSubstr("number overflow"));
  EXPECT_THAT(refusal_of("[1] 2"), testing::HasSubstr("not JSON"));
  EXPECT_THAT(refusal_of("\"\xff\""), testing::HasSubstr("not JSON"));
  using namespace std::string_literals;
  EXPECT_EQ(refusal_of("[1]\n\0x"s), "f.json:2: error SYN: this is not JSON: a NUL byte");
  EXPECT_EQ(refusal_of("[1\0]"s), "f.json:1: error SYN: this is not JSON: a NUL byte");
}

TEST(Reader, null_is_refused_where_it_does_not_stand_for_missing) {
  auto document = Document::parse("{\"a\": null, \"b\": null, \"c\": null}", "f.json", k_codes);
  ASSERT_TRUE(document);
  ObjectReader root(*document, document->root(), "the test");
  root.integer("a", 1);
  root.number("b", 1, 2);
  EXPECT_EQ(root.integer_or("c", 7, 1), 7);
  EXPECT_EQ(to_text(document->refusal().value()),
            "f.json:1: error VAL: \"a\" in the test must be a whole number, not null\n"
            "f.json:1: error VAL: \"b\" in the test must be a number, not null\n"
            "f.json:1: error VAL: \"c\" in the test must be a whole number, not null");
}

TEST(Reader, null_counts_as_missing_in_other_peoples_files) {
  auto codes = k_codes;
  codes.null_is_missing = true;
  auto document = Document::parse("{\"a\": null, \"c\": null}", "f.json", codes);
  ASSERT_TRUE(document);
  ObjectReader root(*document, document->root(), "the test");
  EXPECT_EQ(root.integer_or("c", 7, 1), 7);
  EXPECT_FALSE(document->failed());
  root.integer("a", 1);
  EXPECT_EQ(to_text(document->refusal().value()),
            "f.json:1: error VAL: \"a\" in the test must be a whole number, not null");
}

TEST(Reader, refuses_more_values_than_memory_is_meant_for) {
  std::string text = "[";
  while (text.size() < std::size_t{6} << 20) text += "\"\",\"\",\"\",\"\",";
  EXPECT_THAT(refusal_of(text + "0]"),
              testing::HasSubstr("error SYN: its values would take more than 256 MiB of memory"));
}

TEST(Reader, collects_every_mistake) {
  auto document = Document::parse(R"({
  "name": 3,
  "splits": 0,
  "heads": 99999999999999999999,
  "kind": "gem",
  "hiden": 1
})",
                                  "f.json", k_codes);
  ASSERT_TRUE(document);
  ObjectReader root(*document, document->root(), "the test");
  root.string("name");
  EXPECT_EQ(root.integer_or("splits", 7, 1, 8), 7);
  root.integer("heads", 1);
  root.integer("hidden", 1);
  EXPECT_EQ(root.choice<int>("kind", {"gemm", "copy"}, {10, 20}), 10);
  root.finish();
  ASSERT_TRUE(document->failed());
  EXPECT_EQ(to_text(document->refusal().value()),
            R"(f.json:2: error VAL: "name" in the test must be a string, not 3
f.json:3: error VAL: "splits" in the test must be between 1 and 8, not 0
f.json:4: error VAL: "heads" in the test must be a whole number of 64 bits, not 1e+20
f.json:1: error MIS: "hidden" is missing in the test
f.json:5: error VAL: "kind" in the test is not a known word: "gem"
   known: gemm and copy
   hint: did you mean "gemm"?
f.json:6: error UNK: unknown member "hiden" in the test
   hint: did you mean "hidden"?)");
}

TEST(Pretty, keeps_on_one_line_what_fits) {
  nlohmann::ordered_json value = {{"b", 1}, {"a", {1, 2, 3}}};
  EXPECT_EQ(pretty(value), "{\"b\": 1, \"a\": [1, 2, 3]}\n");
  EXPECT_EQ(pretty(value, 12), "{\n  \"b\": 1,\n  \"a\": [\n    1, 2, 3\n  ]\n}\n");
}

}  // namespace
}  // namespace tessera::json
