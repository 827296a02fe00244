// SPDX-License-Identifier: Apache-2.0
#include "tessera/describe/parse_tile_expr.hpp"

#include <gmock/gmock.h>

#include <array>
#include <random>

namespace tessera {
namespace {

std::vector<std::string> const k_names{"x", "y", "z"};

std::int64_t value_of(std::string_view text, int x, int y, int z) {
  auto const expr = parse_tile_expr(text, k_names);
  EXPECT_TRUE(expr) << to_text(expr.error());
  std::array const at{x, y, z};
  return expr ? expr->evaluate(at) : -999;
}

std::string refusal(std::string_view text) {
  auto const expr = parse_tile_expr(text, k_names);
  return expr ? "accepted" : to_text(expr.error());
}

TEST(ParseTileExpr, reads_what_people_write) {
  EXPECT_EQ(value_of("floor(x/9) + 24", 20, 0, 0), 26);
  EXPECT_EQ(value_of("x/9", 20, 0, 0), 2);
  EXPECT_EQ(value_of("x % 4", 7, 0, 0), 3);
  EXPECT_EQ(value_of("(x - 9) mod 4", 7, 0, 0), 2);
  EXPECT_EQ(value_of("mod(x - 9, 4)", 7, 0, 0), 2);
  EXPECT_EQ(value_of("2 * mod(x, 3) + 1", 7, 0, 0), 3);
  EXPECT_EQ(value_of("(x - 9)/4", 7, 0, 0), -1);
  EXPECT_EQ(value_of("2*(x + y)*3 - -1", 1, 2, 0), 19);
  EXPECT_EQ(value_of("min(max(x, y), 5)", 3, 7, 0), 5);
  EXPECT_EQ(value_of("floor((2*x + 1)/3)", 4, 0, 0), 3);
  EXPECT_EQ(value_of("x/3*2", 5, 0, 0), 2);
  EXPECT_EQ(value_of("-x + 1", 5, 0, 0), -4);
}

TEST(ParseTileExpr, mistakes_name_the_column) {
  EXPECT_EQ(refusal("x + w"),
            "error E0138: tile expression, column 5: the consumer's grid has no dimension \"w\"\n"
            "   x + w\n       ^\n   hint: its dimensions are x, y and z");
  EXPECT_EQ(refusal("x/0"),
            "error E0138: tile expression, column 3: division by 0: only by a constant of 1 or more\n"
            "   x/0\n     ^");
  EXPECT_THAT(refusal("x/-2"), testing::HasSubstr("division by -2"));
  EXPECT_THAT(refusal("x % y"), testing::HasSubstr("column 5: a number is expected here"));
  EXPECT_THAT(refusal("x*y"), testing::HasSubstr("column 2: one side of a product must be a constant"));
  EXPECT_THAT(refusal("(x"), testing::HasSubstr("column 3: \")\" is expected here"));
  EXPECT_THAT(refusal(""), testing::HasSubstr("column 1: the expression ends too early"));
  EXPECT_THAT(refusal("x y"), testing::HasSubstr("column 3: nothing more is expected here"));
  EXPECT_THAT(refusal("floor(x/2 + y/2)"), testing::HasSubstr("floor() takes one division"));
  EXPECT_THAT(refusal("x + 99999999999999999999"), testing::HasSubstr("constants are at most 2147483648"));
  EXPECT_THAT(refusal("x*2147483648*2147483648"), testing::HasSubstr("this can leave 64-bit arithmetic"));
  EXPECT_THAT(refusal(std::string(1000, '(')), testing::HasSubstr("nested too deeply"));
  EXPECT_THAT(refusal(std::string(1000, '-')), testing::HasSubstr("nested too deeply"));
  EXPECT_THAT(refusal("x + \x01"), testing::HasSubstr("unexpected \"?\""));
}

TEST(ParseTileRange, has_four_forms) {
  auto const round = [](std::string_view text) {
    auto const range = parse_tile_range(text, k_names, 24);
    return range ? to_text(*range, k_names, 24) : to_text(range.error());
  };
  for (auto const* text : {"all", "x", "x + 24", "2*x : 2*x + 2", "clamp(x - 1 : x + 2)", "clamp(y)"})
    EXPECT_EQ(round(text), text);
  EXPECT_EQ(round("0:24"), "all");
  EXPECT_THAT(round("x :"), testing::HasSubstr("column 4: the expression ends too early"));
  EXPECT_THAT(round("clamp(x"), testing::HasSubstr("\")\" is expected"));
}

/// Random trees as the operators build them.
TileExpr random_expr(std::mt19937& engine, int depth) {
  auto const in = [&](int least, int most) { return std::uniform_int_distribution(least, most)(engine); };
  if (depth == 0) return in(0, 3) == 0 ? TileExpr::constant(in(-5, 5)) : TileExpr::dimension(in(0, 2));
  auto const a = random_expr(engine, depth - 1);
  switch (in(0, 6)) {
    case 0: return a + random_expr(engine, depth - 1);
    case 1: return a - random_expr(engine, depth - 1);
    case 2: return a * in(-3, 3);
    case 3: return floor_div(a, in(1, 4));
    case 4: return modulo(a, in(1, 4));
    case 5: return minimum(a, random_expr(engine, depth - 1));
    default: return maximum(a, random_expr(engine, depth - 1));
  }
}

TEST(ParseTileExpr, is_the_inverse_of_to_text) {
  std::mt19937 engine(7);
  for (int round = 0; round < 5000; ++round) {
    auto const expr = random_expr(engine, round % 5);
    auto const text = to_text(expr, k_names);
    auto const again = parse_tile_expr(text, k_names);
    ASSERT_TRUE(again) << to_text(again.error());
    ASSERT_EQ(*again, expr) << text << " became " << to_text(*again, k_names);
  }
}

}  // namespace
}  // namespace tessera
