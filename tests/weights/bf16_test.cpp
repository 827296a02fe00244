// SPDX-License-Identifier: Apache-2.0
// Rounding to bf16, against the nearest of all bf16 numbers.
#include "tessera/weights/bf16.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace tessera {
namespace {

float float_of(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
float float_of_bf16(std::uint16_t bits) { return float_of(static_cast<std::uint32_t>(bits) << 16); }

/// By doubles: of the two bf16 numbers around a value the nearer one, else the one whose last bit is 0.
std::uint16_t plainly_rounded(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  auto const below = static_cast<std::uint16_t>(bits >> 16);  // towards 0
  auto const above = static_cast<std::uint16_t>(below + 1);
  double const low = std::fabs(static_cast<double>(float_of_bf16(below)));
  double high = std::fabs(static_cast<double>(float_of_bf16(above)));
  if (std::isinf(high)) high = 0x1p128;  // where the next number would be
  double const size = std::fabs(static_cast<double>(value)), down = size - low, up = high - size;
  if (down != up) return down < up ? below : above;
  return (below & 1) == 0 ? below : above;
}

TEST(Bf16, RoundsToNearestAndTiesToEven) {
  std::mt19937 random(1);
  for (int i = 0; i < 1000000; ++i) {
    auto bits = static_cast<std::uint32_t>(random());
    if (i % 4 == 0) bits = (bits & 0xffff0000u) | 0x8000u;  // a tie
    if (i % 4 == 1) bits = (bits & 0xffff0000u) | (i % 8 == 1 ? 0x7fffu : 0x8001u);
    float const value = float_of(bits);
    if (!std::isfinite(value)) continue;
    ASSERT_EQ(bf16_of(value), plainly_rounded(value)) << value;
  }
  EXPECT_EQ(bf16_of(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(bf16_of(-std::numeric_limits<float>::infinity()), 0xff80);
  EXPECT_EQ(bf16_of(-0.0f), 0x8000);
  EXPECT_EQ(bf16_of(float_of(1)), 0);
}
TEST(Bf16, NumbersThatAreNoneStayNone) {
  // Of the second, all that bf16 keeps would say infinity.
  for (std::uint32_t const bits : {0x7fc00000u, 0x7f800001u, 0xffffffffu, 0xff800001u})
    EXPECT_TRUE(std::isnan(float_of_bf16(bf16_of(float_of(bits))))) << bits;
}
TEST(Bf16, Fp16IsExact) {
  for (int bits = 0; bits < 1 << 16; ++bits) {
    int const exponent = bits >> 10 & 31, mantissa = bits & 1023;
    double expected = exponent == 31  ? (mantissa == 0 ? HUGE_VAL : std::nan(""))
                      : exponent == 0 ? std::ldexp(mantissa, -24)
                                      : std::ldexp(1024 + mantissa, exponent - 25);
    if ((bits & 0x8000) != 0) expected = -expected;
    auto const found = static_cast<double>(float_of_fp16(static_cast<std::uint16_t>(bits)));
    if (std::isnan(expected))
      ASSERT_TRUE(std::isnan(found)) << bits;
    else
      ASSERT_EQ(found, expected) << bits;
    ASSERT_EQ(std::signbit(found), (bits & 0x8000) != 0) << bits;
  }
}
TEST(Bf16, ConvertsInPlace) {
  std::vector<float> const values = {1, -2, 3.140625f, 1e30f, -0.5f};
  for (bool const in_place : {false, true}) {
    std::vector<float> from = values;
    std::vector<std::uint16_t> to(values.size());
    convert_to_bf16(from.data(), "F32", values.size(),
                    in_place ? static_cast<void*>(from.data()) : to.data());
    if (in_place) std::memcpy(to.data(), from.data(), 2 * to.size());
    for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(to[i], bf16_of(values[i])) << i;
  }
  std::vector<std::uint16_t> const halves = {0x3c00, 0xc000, 0x0001};
  std::vector<std::uint16_t> to(3);
  convert_to_bf16(halves.data(), "F16", 3, to.data());
  EXPECT_EQ(to, (std::vector<std::uint16_t>{0x3f80, 0xc000, bf16_of(0x1p-24f)}));
  convert_to_bf16(halves.data(), "BF16", 3, to.data());
  EXPECT_EQ(to, halves);
  EXPECT_FALSE(converts_to_bf16("I8"));
}

}  // namespace
}  // namespace tessera
