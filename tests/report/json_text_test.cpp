// SPDX-License-Identifier: Apache-2.0
#include "tessera/report/json_text.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace tessera {
namespace {

TEST(JsonText, QuotesWhatJsonCannotHold) {
  EXPECT_EQ(json_quoted("a\"b\\c\n\x01"), "\"a\\\"b\\\\c\\n\\u0001\"");
  EXPECT_EQ(json_quoted("é→"), "\"é→\"");
  for (auto const* broken : {"\xff", "\xc3", "\xed\xa0\x80", "\xe0\x80\x80", "\xf5\x80\x80\x80"})
    EXPECT_TRUE(nlohmann::json::accept(json_quoted(broken))) << broken;
}

TEST(JsonText, NumbersReadBackEqual) {
  for (double const value : {0.1, 1.0 / 3, 1e300, -5e-324, 0.0})
    EXPECT_EQ(nlohmann::json::parse(json_number(value)).get<double>(), value);
  EXPECT_EQ(json_number(std::numeric_limits<double>::infinity()), "null");
}

TEST(JsonText, NestsAndSeparates) {
  JsonWriter json;
  json.begin_object()
      .member("a", 1)
      .key("b")
      .begin_array()
      .value(true)
      .value("x")
      .begin_object()
      .end_object();
  json.begin_array()
      .value(1)
      .value(2)
      .end_array()
      .end_array()
      .key("c")
      .begin_object()
      .end_object()
      .end_object();
  EXPECT_EQ(nlohmann::json::parse(json.text()),
            nlohmann::json::parse(R"({"a": 1, "b": [true, "x", {}, [1, 2]], "c": {}})"));
}

}  // namespace
}  // namespace tessera
