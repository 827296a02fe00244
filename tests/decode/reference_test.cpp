// SPDX-License-Identifier: Apache-2.0
// The plain decoder that the GPU's is held to, itself.
#include "decode/reference.hpp"

#include <gtest/gtest.h>

namespace tessera::decode::reference {
namespace {

TEST(DecodeReference, NoQueryIsTheMeanOfValues) {
  Numbers const query(64), keys(5 * 64);
  Numbers values(5 * 64);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 97);
  auto const found = attention(query.data(), keys, values, 64);
  for (std::size_t d = 0; d < 64; ++d) {
    float mean = 0;
    for (std::size_t p = 0; p < 5; ++p) mean += values[p * 64 + d] / 5;
    EXPECT_NEAR(found[d], mean, 1e-4);
  }
}
/// Turning keeps lengths, and a score depends on the difference of positions alone.
TEST(DecodeReference, ScoresDependOnDistances) {
  auto const table = rotation_table(small_model().rotation, 64, 40);
  Numbers q(64), k(64);
  for (std::size_t i = 0; i < 64; ++i) q[i] = static_cast<float>(i % 7), k[i] = static_cast<float>(i % 5);
  auto const score = [&](int at_q, int at_k) {
    auto one = q, other = k;
    turn(one.data(), table.data() + 32 * at_q, 64, Precision::fp32);
    turn(other.data(), table.data() + 32 * at_k, 64, Precision::fp32);
    float sum = 0;
    for (std::size_t i = 0; i < 64; ++i) sum += one[i] * other[i];
    return sum;
  };
  EXPECT_NEAR(score(9, 4), score(30, 25), 1e-2);
  EXPECT_GT(std::fabs(score(9, 4) - score(9, 9)), 1);
}
TEST(DecodeReference, RoundingIsSmallAndNotNothing) {
  auto const model = small_model();
  Weights const weights(model, 1);
  Sequence exact(weights, Precision::fp32, 8), rounding(weights, Precision::bf16, 8);
  for (int const token : {5, 500, 77}) {
    auto const expected = exact.step(token), found = rounding.step(token);
    double const error = relative_error(found, expected);
    EXPECT_GT(error, 1e-4);
    EXPECT_LT(error, 3e-2);
  }
}
/// What was read before matters, and its order does.
TEST(DecodeReference, RemembersInOrder) {
  auto const model = small_model();
  Weights const weights(model, 2);
  auto const after = [&](std::vector<int> const& tokens) {
    Sequence sequence(weights, Precision::fp32, 8);
    Numbers logits;
    for (int const token : tokens) logits = sequence.step(token);
    return logits;
  };
  EXPECT_GT(relative_error(after({1, 2, 3}), after({2, 1, 3})), 1e-3);
  EXPECT_GT(relative_error(after({1, 2, 3}), after({3})), 1e-3);
}

}  // namespace
}  // namespace tessera::decode::reference
