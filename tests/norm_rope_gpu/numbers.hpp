// SPDX-License-Identifier: Apache-2.0
// Random numbers, and bf16 on the host.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "gpu/device_buffer.hpp"

namespace tessera::kernels {

using Bits = std::vector<unsigned short>;
using Numbers = std::vector<float>;

inline unsigned short to_bf16(float value) {
  unsigned bits;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<unsigned short>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
inline float from_bf16(unsigned short bits) {
  unsigned const wide = static_cast<unsigned>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

inline Numbers normal(std::size_t count, double mean, double deviation, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> distribution(mean, deviation);
  Numbers result(count);
  for (auto& one : result) one = static_cast<float>(distribution(random));
  return result;
}
inline Bits rounded(Numbers const& numbers) {
  Bits result;
  for (float const one : numbers) result.push_back(to_bf16(one));
  return result;
}

}  // namespace tessera::kernels
