// SPDX-License-Identifier: Apache-2.0
#include "tessera/weights/bf16.hpp"

#include <cstring>

namespace tessera {
namespace {

std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

/// From the front on: what is written is never wider than what was read there.
template <class From, class Convert>
void convert(void const* from, std::size_t count, void* to, Convert const& one) {
  auto const* const in = static_cast<unsigned char const*>(from);
  auto* const out = static_cast<unsigned char*>(to);
  for (std::size_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, in + i * sizeof value, sizeof value);
    std::uint16_t const rounded = one(value);
    std::memcpy(out + i * sizeof rounded, &rounded, sizeof rounded);
  }
}

}  // namespace

std::uint16_t bf16_of(float value) {
  auto const bits = bits_of(value);
  constexpr std::uint32_t k_infinity = 0x7f800000u, k_quiet = 0x0040u;
  if ((bits & 0x7fffffffu) > k_infinity) return static_cast<std::uint16_t>(bits >> 16 | k_quiet);
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

float float_of_fp16(std::uint16_t half) {
  std::uint32_t const sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
  std::uint32_t const exponent = half >> 10 & 0x1fu, mantissa = half & 0x3ffu;
  if (exponent == 0) {
    float const size = static_cast<float>(mantissa) * 0x1p-24f;
    return sign != 0 ? -size : size;
  }
  std::uint32_t const bits = exponent == 0x1fu ? sign | 0x7f800000u | mantissa << 13
                                               : sign | (exponent + 112) << 23 | mantissa << 13;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

bool converts_to_bf16(std::string const& type) { return type == "BF16" || type == "F16" || type == "F32"; }

void convert_to_bf16(void const* from, std::string const& type, std::size_t count, void* to) {
  if (type == "F32")
    convert<float>(from, count, to, bf16_of);
  else if (type == "F16")
    convert<std::uint16_t>(from, count, to, [](std::uint16_t half) { return bf16_of(float_of_fp16(half)); });
  else if (from != to)
    std::memmove(to, from, 2 * count);
}

}  // namespace tessera
