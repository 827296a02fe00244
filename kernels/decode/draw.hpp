// SPDX-License-Identifier: Apache-2.0
// Drawing a token, in arithmetic that the host and the GPU do bit by bit alike: probabilities are integers,
// whose sums depend on no order. Products and sums of fp32 are told apart by fmaf(), so that no compiler puts
// them together.
//
// Tokens are in the order of key_of(): the most likely first, of equal ones the lower. What is kept of them,
// by number or by probability, is a beginning of that order; so is what lies before the token that is drawn.
#pragma once

#include <cmath>
#include <tessera/sync/config.cuh>

#include "kernels/common/philox.hpp"
#include "kernels/decode/sampling.hpp"

namespace tessera::decode {

using Amount = unsigned long long;

using kernels::philox, kernels::RandomWords;

/// For the token of a sequence that comes to stand at a position.
TESSERA_HOST_DEVICE constexpr Amount random_bits(Amount seed, int sequence, int position) {
  auto const words = philox(seed, {{static_cast<unsigned>(sequence), static_cast<unsigned>(position), 0, 0}});
  return Amount{words.word[1]} << 32 | words.word[0];
}

/// The high half of a product: a number below `all`, of random bits.
TESSERA_HOST_DEVICE constexpr Amount below(Amount all, Amount bits) {
  Amount const low = all & 0xffffffffu, high = all >> 32;
  Amount const bits_low = bits & 0xffffffffu, bits_high = bits >> 32;
  Amount const middle = high * bits_low + (low * bits_low >> 32);
  Amount const other = low * bits_high + (middle & 0xffffffffu);
  return high * bits_high + (middle >> 32) + (other >> 32);
}

constexpr int k_weight_bits = 40;  ///< 2^20 tokens as likely as the most likely one sum up to 2^60

/// Of logits, for powers of two.
inline float logit_scale(Sampling const& sampling) {
  return static_cast<float>(1.4426950408889634 / sampling.temperature);
}

/// 2^40 * 2^((logit - most) * scale), or 0 where that is below 1/2 and where the logit is no number.
/// `most`: the largest logit, finite.
TESSERA_HOST_DEVICE inline Amount weight_of(float logit, float most, float scale) {
  float const under = logit - most;
  float const whole = rintf(under * scale);
  if (!(whole > -k_weight_bits - 1.0f)) return 0;
  float const rest = fmaf(under, scale, -whole);
  // Powers of ln 2 over factorials: of -1/2 to 1/2 what is left out is below 10^-8.
  float power = 1.5252733804e-5f;
  power = fmaf(power, rest, 1.5403530393e-4f);
  power = fmaf(power, rest, 1.3333558146e-3f);
  power = fmaf(power, rest, 9.6181291076e-3f);
  power = fmaf(power, rest, 5.5504108665e-2f);
  power = fmaf(power, rest, 2.4022650696e-1f);
  power = fmaf(power, rest, 6.9314718056e-1f);
  power = fmaf(power, rest, 1.0f);
  auto const mantissa = static_cast<Amount>(power * 16777216.0f);
  int const shift = k_weight_bits - 24 + static_cast<int>(whole);
  return shift >= 0 ? mantissa << shift : mantissa >> -shift;
}

/// The least that is so much of all, 1 at least.
TESSERA_HOST_DEVICE inline Amount share_of(Amount all, double part) {
  auto const least = static_cast<Amount>(ceil(part * static_cast<double>(all)));
  return least < 1 ? 1 : least > all ? all : least;
}

constexpr int k_key_digits = 7;
constexpr int k_digit_values = 256;

/// Finds the first token, in the order of keys, with which the amounts so far come to `wanted`: eight bits of
/// its key at a time, from sums over the tokens whose keys begin as the one looked for.
struct KeySearch {
  Amount wanted = 1;  ///< among keys that begin so
  unsigned long long found = 0;
  int digits = 0;

  TESSERA_HOST_DEVICE constexpr bool is_over() const { return digits == k_key_digits; }
  /// Of tokens, the low half of a key, 24 bits differ.
  TESSERA_HOST_DEVICE static constexpr int shift(int digit) {
    return digit < 4 ? 56 - 8 * digit : 16 - 8 * (digit - 4);
  }
  TESSERA_HOST_DEVICE constexpr bool begins(unsigned long long key) const {
    return digits == 0 || (key ^ found) >> shift(digits - 1) == 0;
  }
  TESSERA_HOST_DEVICE constexpr int digit_of(unsigned long long key) const {
    return static_cast<int>(key >> shift(digits) & 0xffu);
  }
  /// `digit`: the largest with which the sums, from the largest digit on, come to `wanted`; `before`: the sum
  /// of those above it.
  TESSERA_HOST_DEVICE constexpr void take(int digit, Amount before) {
    found |= static_cast<unsigned long long>(digit) << shift(digits);
    if (digits == 3) found |= 0xff000000u;
    wanted -= before;
    ++digits;
  }
  /// The same for all digits that are left; `before`: of keys that begin so and are larger.
  TESSERA_HOST_DEVICE constexpr void end_at(unsigned long long key, Amount before) {
    found = key;
    wanted -= before;
    digits = k_key_digits;
  }
};

}  // namespace tessera::decode
