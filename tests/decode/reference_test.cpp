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
/// Rows of queries and keys put as pack_weights() puts them: interleaved positions are half-split ones then.
TEST(DecodeReference, InterleavedPositionsAreHalfSplitOnesOfOtherRows) {
  auto const model = with_biases(with_interleaved(small_model(64, 2, 2)));
  Weights const weights(model, 5);
  auto moved = weights;
  moved.model.rotation.interleaved = false;
  auto const move = [](Numbers& rows, int columns) {
    auto const from = rows;
    for (std::size_t i = 0; i < from.size(); ++i) {
      auto const row = static_cast<int>(i) / columns, column = static_cast<int>(i) % columns;
      rows[at(half_split_row(row, 64), column, columns)] = from[i];
    }
  };
  for (auto& layer : moved.layers) {
    move(layer.q, model.hidden), move(layer.k, model.hidden);
    move(layer.q_bias, 1), move(layer.k_bias, 1);
  }
  auto unmoved = weights;
  unmoved.model.rotation.interleaved = false;
  Sequence interleaved(weights, Precision::fp32, 16), half_split(moved, Precision::fp32, 16),
      other(unmoved, Precision::fp32, 16);
  double wrong = 0;
  for (int const token : {5, 500, 77, 3, 12}) {
    auto const expected = interleaved.step(token);
    EXPECT_LT(relative_error(half_split.step(token), expected), 1e-5);
    wrong = std::max(wrong, relative_error(other.step(token), expected));
  }
  EXPECT_GT(wrong, 0.05) << "the same rows turn in another way";
}
TEST(DecodeReference, RowsOfHalves) {
  std::vector<int> rows;
  for (int row = 8; row < 16; ++row) rows.push_back(half_split_row(row, 8));
  EXPECT_EQ(rows, (std::vector<int>{8, 12, 9, 13, 10, 14, 11, 15}));
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
Numbers logits_behind(Weights const& weights, std::vector<int> const& tokens) {
  Sequence sequence(weights, Precision::fp32, 8);
  Numbers logits;
  for (int const token : tokens) logits = sequence.step(token);
  return logits;
}
/// Weights of values and keys add up to 1: a bias of values is one behind attention.
TEST(DecodeReference, ABiasOfValuesGoesThrough) {
  auto model = with_biases(small_model(64, 2, 3));
  model.out_biases = true;
  Weights of_values(model, 5);
  for (auto& l : of_values.layers) {
    for (auto* const one : {&l.q_bias, &l.k_bias, &l.o_bias}) one->assign(one->size(), 0);
  }
  auto behind = of_values;
  for (auto& l : behind.layers) {
    Numbers of_queries;
    for (int h = 0; h < model.heads; ++h) {
      auto const first = l.v_bias.begin() + static_cast<std::ptrdiff_t>(at(h / model.group(), 0, 64));
      of_queries.insert(of_queries.end(), first, first + 64);
    }
    l.o_bias = product(l.o, of_queries);
    l.v_bias.assign(l.v_bias.size(), 0);
  }
  auto const expected = logits_behind(of_values, {1, 2, 3});
  EXPECT_LT(relative_error(logits_behind(behind, {1, 2, 3}), expected), 1e-5);
  for (auto& l : behind.layers) l.o_bias.assign(l.o_bias.size(), 0);
  EXPECT_GT(relative_error(logits_behind(behind, {1, 2, 3}), expected), 1e-2);
}
/// Biases of queries and keys matter; of heads that are normed, how large queries and keys are does not.
TEST(DecodeReference, BiasesAndNormsMatter) {
  Weights biased(with_biases(small_model()), 6);
  auto const expected = logits_behind(biased, {1, 2, 3});
  auto without = biased;
  for (auto& l : without.layers) l.k_bias.assign(l.k_bias.size(), 0);
  EXPECT_GT(relative_error(logits_behind(without, {1, 2, 3}), expected), 1e-3);

  auto const larger = [](Weights weights) {
    for (auto& l : weights.layers)
      for (auto* const matrix : {&l.q, &l.k})
        for (auto& one : *matrix) one *= 8;
    return weights;
  };
  Weights const plain(small_model(), 6), normed(with_norms(small_model()), 6);
  auto const off = [&](Weights const& one) {
    return relative_error(logits_behind(larger(one), {1, 2, 3}), logits_behind(one, {1, 2, 3}));
  };
  EXPECT_GT(off(plain), 1e-1);
  EXPECT_LT(off(normed), 1e-4);
  auto other_gains = normed;
  for (auto& l : other_gains.layers) l.q_norm[5] *= 3;
  EXPECT_GT(relative_error(logits_behind(other_gains, {1, 2, 3}), logits_behind(normed, {1, 2, 3})), 1e-4);
}
/// With a window of one key a token's attention is its own value; a layer sees through those below it.
TEST(DecodeReference, WindowsForget) {
  auto const model = small_model();
  auto const behind = [&](int window, std::vector<int> const& tokens) {
    return logits_behind(Weights(with_window(model, window), 2), tokens);
  };
  EXPECT_EQ(behind(1, {1, 2, 3}), behind(1, {7, 8, 3}));
  EXPECT_GT(relative_error(behind(2, {1, 2, 3}), behind(2, {1, 8, 3})), 1e-3);
  EXPECT_GT(relative_error(behind(2, {1, 2, 3}), behind(2, {7, 2, 3})), 1e-3) << "two layers";
  EXPECT_EQ(behind(2, {4, 1, 2, 3}).size(), behind(2, {5, 1, 2, 3}).size());
  EXPECT_EQ(behind(3, {1, 2, 3}), behind(0, {1, 2, 3}));
}
/// A window of one key in the second of two layers: the first one sees all.
TEST(DecodeReference, WindowsOfSomeLayers) {
  auto const behind = [&](int from, std::vector<int> const& tokens) {
    return logits_behind(Weights(with_window(small_model(), 1, from), 2), tokens);
  };
  EXPECT_EQ(behind(0, {1, 2, 3}), behind(0, {7, 8, 3}));
  EXPECT_GT(relative_error(behind(1, {1, 2, 3}), behind(1, {7, 2, 3})), 1e-3);
  EXPECT_GT(relative_error(behind(1, {1, 2, 3}), logits_behind(Weights(small_model(), 2), {1, 2, 3})), 1e-3);
}
/// LayerNorm subtracts the mean: a constant that is added to all elements of each position changes nothing,
/// nor one that is added to all that a product adds to the residual.
TEST(DecodeReference, LayerNormSeesNoMean) {
  Weights const weights(small_gpt2(), 2);
  auto const expected = logits_behind(weights, {1, 2, 3});
  auto shifted = weights;
  for (auto& one : shifted.positions) one += 2;
  for (auto& l : shifted.layers)
    for (auto* const bias : {&l.o_bias, &l.down_bias})
      for (auto& one : *bias) one -= 3;
  EXPECT_LT(relative_error(logits_behind(shifted, {1, 2, 3}), expected), 1e-4);
  for (auto const member :
       {&Layer::up_bias, &Layer::down_bias, &Layer::attention_norm_bias, &Layer::mlp_norm_bias}) {
    auto other = weights;
    for (auto& l : other.layers) (l.*member)[3] += 2;
    EXPECT_GT(relative_error(logits_behind(other, {1, 2, 3}), expected), 1e-3);
  }
}
TEST(DecodeReference, LearnedPositionsMatter) {
  Weights const weights(small_gpt2(), 2);
  EXPECT_GT(relative_error(logits_behind(weights, {1, 1}), logits_behind(weights, {1})), 1e-2);
}
TEST(DecodeReference, GeluByTanh) {
  EXPECT_EQ(gelu(0), 0);
  EXPECT_NEAR(gelu(1), 0.8411920f, 1e-6);
  EXPECT_NEAR(gelu(-1), -0.1588080f, 1e-6);
}
/// What was read before matters, and its order does.
TEST(DecodeReference, RemembersInOrder) {
  auto const model = small_model();
  Weights const weights(model, 2);
  auto const after = [&](std::vector<int> const& tokens) { return logits_behind(weights, tokens); };
  EXPECT_GT(relative_error(after({1, 2, 3}), after({2, 1, 3})), 1e-3);
  EXPECT_GT(relative_error(after({1, 2, 3}), after({3})), 1e-3);
}

}  // namespace
}  // namespace tessera::decode::reference
