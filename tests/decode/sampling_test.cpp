// SPDX-License-Identifier: Apache-2.0
// Drawing tokens: random numbers by published vectors, probabilities by the exponential function, the search
// by sorting, and what is drawn by counting. Without a GPU.
#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "decode/sampling_reference.hpp"

namespace tessera::decode {
namespace {

using reference::bits_of;
using reference::drawn;
using testing::HasSubstr;

__extension__ using Wide = unsigned __int128;

constexpr float k_infinity = std::numeric_limits<float>::infinity();
constexpr float k_nan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> normal_logits(int count, unsigned seed, double deviation = 2) {
  std::mt19937 random(seed);
  std::normal_distribution<double> distribution(0, deviation);
  std::vector<float> result(static_cast<std::size_t>(count));
  for (auto& one : result) one = static_cast<float>(distribution(random));
  return result;
}

/// As published with the generator (Random123's known answers, philox4x32_10).
TEST(DecodeDraw, PhiloxGivesThePublishedWords) {
  auto const is = [](Amount key, RandomWords counter, std::array<unsigned, 4> const& expected) {
    auto const found = philox(key, counter);
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(found.word[i], expected[i]) << i;
  };
  is(0, {}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  is(~Amount{0}, {{~0u, ~0u, ~0u, ~0u}}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  is(0x299f31d0a4093822, {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}
TEST(DecodeDraw, BelowIsTheHighHalfOfAProduct) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 1000; ++i) {
    Amount const a = random() >> (i % 60), b = random() >> (i / 17);
    EXPECT_EQ(below(a, b), static_cast<Amount>(static_cast<Wide>(a) * b >> 64));
  }
  EXPECT_EQ(below(7, ~Amount{0}), 6u);
}
TEST(DecodeDraw, WeightsArePowers) {
  constexpr double all = 1099511627776.0;  // 2^40
  EXPECT_EQ(weight_of(3, 3, 1.4f), Amount{1} << 40);
  double most = 0;
  for (float const scale : {1.4426950f, 0.01f, 3.7f})
    for (int i = 0; i < 4000; ++i) {
      float const under = static_cast<float>(-i) / 173;
      auto const x = static_cast<double>(under) * static_cast<double>(scale);
      double const expected = all * std::exp2(x);
      if (expected < 1e7) break;
      double const found = static_cast<double>(weight_of(under, 0, scale));
      most = std::fmax(most, std::fabs(found / expected - 1));
    }
  EXPECT_LT(most, 2.5e-7) << "a few roundings of fp32";
  EXPECT_GT(most, 1e-9);
}
TEST(DecodeDraw, WhatIsFarBelowOrNoNumberHasNoWeight) {
  EXPECT_EQ(weight_of(-k_infinity, 0, 1), 0u);
  EXPECT_EQ(weight_of(k_nan, 0, 1), 0u);
  EXPECT_EQ(weight_of(-3e38f, 3e38f, 1e4f), 0u);
  EXPECT_EQ(weight_of(-100, 0, 1), 0u);
  EXPECT_EQ(weight_of(-40, 0, 1), 1u);
  EXPECT_EQ(weight_of(-41, 0, 1), 0u);
  EXPECT_EQ(weight_of(1, 1, 14426.95f), Amount{1} << 40);
}
TEST(DecodeDraw, SharesAreOneAtLeastAndAllAtMost) {
  EXPECT_EQ(share_of(1000, 1), 1000u);
  EXPECT_EQ(share_of(1000, 0.5), 500u);
  EXPECT_EQ(share_of(1000, 0.5001), 501u);
  EXPECT_EQ(share_of(1000, 1e-30), 1u);
  Amount const large = (Amount{1} << 60) - 1;  // more than a double tells apart
  EXPECT_EQ(share_of(large, 1), large);
}

TEST(DecodeHead, KeysKeepLogitsAndSayWhatIsFinite) {
  for (float const logit : {0.0f, 1e-40f, -1e-40f, 2.5f, -2.5f, 3e38f, -3e38f}) {
    auto const key = key_of(bits_of(logit), 77);
    EXPECT_EQ(logit_bits_of(key), bits_of(logit));
    EXPECT_TRUE(is_finite_key(key)) << logit;
  }
  for (float const logit : {k_infinity, -k_infinity, k_nan, -k_nan})
    EXPECT_FALSE(is_finite_key(key_of(bits_of(logit), 77))) << logit;
  for (float const none : {k_nan, -k_nan})
    EXPECT_GT(key_of(bits_of(none), 9), key_of(bits_of(k_infinity), 0)) << "is found, whatever its sign";
}

/// Digit by digit, from sums over all tokens: what the GPU does.
template <class AmountOf>
int searched(std::vector<float> const& logits, Amount wanted, AmountOf const& amount) {
  KeySearch search{wanted};
  while (!search.is_over()) {
    std::array<Amount, k_digit_values> sums = {};
    for (std::size_t i = 0; i < logits.size(); ++i)
      if (auto const key = key_of(bits_of(logits[i]), static_cast<int>(i)); search.begins(key))
        sums[static_cast<std::size_t>(search.digit_of(key))] += amount(logits[i]);
    Amount before = 0;
    int digit = k_digit_values - 1;
    for (; before + sums[static_cast<std::size_t>(digit)] < search.wanted; --digit)
      before += sums[static_cast<std::size_t>(digit)];
    search.take(digit, before);
  }
  EXPECT_EQ(token_of(search.found) < static_cast<int>(logits.size()), true);
  EXPECT_EQ(search.found, key_of(bits_of(logits[static_cast<std::size_t>(token_of(search.found))]),
                                 token_of(search.found)));
  return token_of(search.found);
}
TEST(DecodeDraw, TheSearchFindsWhatSortingFinds) {
  std::mt19937 random(4);
  for (int round = 0; round < 40; ++round) {
    auto logits = normal_logits(1 + static_cast<int>(random() % 3000), random());
    // Many equal ones, and all equal.
    if (round % 3 == 0)
      for (auto& one : logits) one = std::round(one);
    if (round % 8 == 7) logits.assign(logits.size(), -0.0f);
    if (round % 5 == 4) logits[0] = -k_infinity;
    auto const keys = reference::sorted_keys(logits);
    float const most = logits[static_cast<std::size_t>(token_of(keys.front()))];
    auto const one = [](float) { return Amount{1}; };
    auto const weight = [&](float logit) { return weight_of(logit, most, 1.4427f); };
    Amount all = 0;
    for (float const logit : logits) all += weight(logit);
    for (int i = 0; i < 5; ++i) {
      auto const count = 1 + random() % logits.size();
      EXPECT_EQ(searched(logits, count, one), token_of(keys[count - 1])) << round;
      Amount const wanted = below(all, Amount{random()} << 32) + 1;
      Amount upto = 0;
      std::size_t at = 0;
      while ((upto += weight(logits[static_cast<std::size_t>(token_of(keys[at]))])) < wanted) ++at;
      EXPECT_EQ(searched(logits, wanted, weight), token_of(keys[at])) << round;
    }
  }
}
/// Tokens of the largest vocabulary have digits of their own.
TEST(DecodeDraw, TheSearchTellsTokensApart) {
  std::vector<float> const equal(1 << 20, 1.5f);
  for (int const count : {1, 255, 256, 65536, 65537, 1 << 20})
    EXPECT_EQ(searched(equal, static_cast<Amount>(count), [](float) { return Amount{1}; }), count - 1);
}

/// Chi-square against the softmax by the exponential function, of draws at many positions with one seed. With
/// n kinds of tokens it has n - 1 degrees of freedom: mean n - 1, variance 2 (n - 1).
void expect_distribution(std::vector<float> const& logits, Sampling const& s, std::size_t kept) {
  auto const keys = reference::sorted_keys(logits);
  std::map<int, double> expected;
  double all = 0;
  for (std::size_t i = 0; i < kept; ++i) {
    int const token = token_of(keys[i]);
    all += expected[token] =
        std::exp(static_cast<double>(logits[static_cast<std::size_t>(token)]) / s.temperature);
  }
  constexpr int draws = 20000;
  std::map<int, int> found;
  for (int position = 0; position < draws; ++position) ++found[drawn(logits, s, 3, position)];
  double chi = 0;
  int seen = 0;
  for (auto const& [token, weight] : expected) {
    double const mean = draws * weight / all, off = found[token] - mean;
    chi += off * off / mean;
    seen += found[token];
  }
  EXPECT_EQ(seen, draws) << "a token was drawn that is not kept";
  double const freedom = static_cast<double>(kept - 1);
  EXPECT_LT(chi, freedom + 5 * std::sqrt(2 * freedom));
  EXPECT_GT(chi, freedom - 5 * std::sqrt(2 * freedom)) << "more even than draws can be";
}
TEST(DecodeSampling, DrawsAreDistributedAsTheSoftmax) {
  auto const logits = normal_logits(24, 11, 1);
  for (double const temperature : {0.7, 1.0, 3.0}) expect_distribution(logits, {temperature, 0, 1, 5}, 24);
  expect_distribution(logits, {1, 7, 1, 6}, 7);
  // All alike: half of them have a probability of one half.
  expect_distribution(std::vector<float>(20, -3.0f), {1, 0, 0.5, 7}, 10);
  expect_distribution(std::vector<float>(20, -3.0f), {1, 8, 0.5, 7}, 4);
}
TEST(DecodeSampling, ProbabilityKeepsTheTokenThatReachesIt) {
  // 0.5, 0.25, 0.125, 0.125 but for rounding.
  std::vector<float> logits;
  for (double const p : {0.125, 0.5, 0.125, 0.25}) logits.push_back(static_cast<float>(std::log(p)));
  auto const kinds = [&](double top_p) {
    std::map<int, int> found;
    for (int position = 0; position < 2000; ++position) ++found[drawn(logits, {1, 0, top_p, 1}, 0, position)];
    return found.size();
  };
  EXPECT_EQ(kinds(1e-12), 1u);
  EXPECT_EQ(kinds(0.49), 1u);
  EXPECT_EQ(kinds(0.51), 2u);
  EXPECT_EQ(kinds(0.74), 2u);
  EXPECT_EQ(kinds(0.76), 3u);
  EXPECT_EQ(kinds(0.88), 4u);
  EXPECT_EQ(kinds(1), 4u);
}
TEST(DecodeSampling, OneTokenLittleProbabilityAndColdAreTheMostLikely) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    auto const logits = normal_logits(300, seed);
    int const likely = drawn(logits, {}, 0, 0);
    for (int position = 0; position < 50; ++position)
      for (Sampling const& s : {Sampling{1, 1, 1, seed}, {2, 0, 1e-15, seed}, {1e-4, 0, 1, seed}})
        ASSERT_EQ(drawn(logits, s, 1, position), likely);
  }
}
TEST(DecodeSampling, SeedSequenceAndPositionEachMatter) {
  std::vector<float> const even(1000, 0.0f);
  int same_seed = 0, same_sequence = 0, same_position = 0;
  for (int i = 0; i < 1000; ++i) {
    int const one = drawn(even, {1, 0, 1, 42}, 0, i);
    EXPECT_EQ(drawn(even, {1, 0, 1, 42}, 0, i), one);
    same_seed += drawn(even, {1, 0, 1, 43}, 0, i) == one ? 1 : 0;
    same_sequence += drawn(even, {1, 0, 1, 42}, 1, i) == one ? 1 : 0;
    same_position += drawn(even, {1, 0, 1, 42}, 0, i + 1) == one ? 1 : 0;
  }
  for (int const same : {same_seed, same_sequence, same_position}) EXPECT_LT(same, 12) << "1 is expected";
}
TEST(DecodeSampling, RefusalsSayNumbers) {
  auto const refused = [](Sampling const& s, std::string const& words) {
    auto const outcome = check_sampling(s);
    ASSERT_FALSE(outcome) << words;
    EXPECT_EQ(outcome.error().front().code, "E0566");
    EXPECT_THAT(to_text(outcome.error()), HasSubstr(words));
  };
  refused({-1, 0, 1, 0}, "a temperature of -1");
  refused({1e-5, 0, 1, 0}, "a temperature of 1e-05");
  refused({static_cast<double>(k_nan), 0, 1, 0}, "a temperature of nan");
  refused({static_cast<double>(k_infinity), 0, 1, 0}, "a temperature of inf");
  refused({1, -2, 1, 0}, "the -2 most likely tokens");
  refused({1, 0, 0, 0}, "a probability of 0");
  refused({1, 0, 1.01, 0}, "a probability of 1.01");
  refused({1, 0, static_cast<double>(k_nan), 0}, "a probability of nan");
  for (Sampling const& s : {Sampling{}, {1e-4, 0, 1, 0}, {1e4, 1 << 30, 1e-300, ~0ull}})
    EXPECT_TRUE(check_sampling(s));
}

}  // namespace
}  // namespace tessera::decode
