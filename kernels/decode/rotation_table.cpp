// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/rotation_table.hpp"

#include <cmath>

namespace tessera::decode {
namespace {

constexpr double k_turn = 6.283185307179586;

/// Llama 3: long waves are slowed down by the factor, short ones are left, between them it goes over.
double scaled(double frequency, Rotation const& r) {
  if (r.factor <= 1) return frequency;
  double const wave = k_turn / frequency, original = r.original_positions;
  if (wave < original / r.high_frequency_factor) return frequency;
  if (wave > original / r.low_frequency_factor) return frequency / r.factor;
  double const kept =
      (original / wave - r.low_frequency_factor) / (r.high_frequency_factor - r.low_frequency_factor);
  return (1 - kept) * frequency / r.factor + kept * frequency;
}

}  // namespace

std::vector<float> frequencies(Rotation const& rotation, int head_size, int positions) {
  auto const& factors =
      positions > rotation.original_positions ? rotation.long_factors : rotation.short_factors;
  std::vector<float> result;
  for (int d = 0; d < head_size / 2; ++d) {
    double const plain = std::pow(rotation.theta, -2.0 * d / head_size);
    double const by = factors.empty() ? 1 : static_cast<double>(factors[static_cast<std::size_t>(d)]);
    result.push_back(static_cast<float>(scaled(plain / by, rotation)));
  }
  return result;
}

std::vector<Turn> rotation_table(Rotation const& rotation, int head_size, int positions) {
  auto const of = frequencies(rotation, head_size, positions);
  std::vector<Turn> result;
  result.reserve(of.size() * static_cast<std::size_t>(positions));
  for (int p = 0; p < positions; ++p)
    for (float const frequency : of) {
      double const angle = static_cast<double>(static_cast<float>(p) * frequency);
      result.push_back({static_cast<float>(std::cos(angle) * rotation.attention_factor),
                        static_cast<float>(std::sin(angle) * rotation.attention_factor)});
    }
  return result;
}

}  // namespace tessera::decode
