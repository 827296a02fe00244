// SPDX-License-Identifier: Apache-2.0
// A decoder by plain arithmetic on the host: small ones, to hold the GPU's to. In fp32, or rounded to bf16
// where a model of bf16 is rounded.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/decode/model.hpp"
#include "kernels/decode/rotation_table.hpp"

namespace tessera::decode::reference {

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
inline float rounded(float value) { return from_bf16(to_bf16(value)); }

/// Whether results are rounded on the way.
enum class Precision { fp32, bf16 };
inline float as(Precision precision, float value) {
  return precision == Precision::bf16 ? rounded(value) : value;
}
inline Numbers as(Precision precision, Numbers values) {
  for (auto& one : values) one = as(precision, one);
  return values;
}

inline std::size_t at(int a, int b, int columns) {
  return static_cast<std::size_t>(a) * static_cast<std::size_t>(columns) + static_cast<std::size_t>(b);
}

/// y = W x, W row-major.
inline Numbers product(Numbers const& weights, Numbers const& x) {
  Numbers result(weights.size() / x.size());
  for (std::size_t row = 0; row < result.size(); ++row) {
    float sum = 0;
    for (std::size_t k = 0; k < x.size(); ++k) sum += weights[row * x.size() + k] * x[k];
    result[row] = sum;
  }
  return result;
}

/// With biases.
inline Numbers layer_norm(Numbers const& x, Numbers const& gains, Numbers const& biases, double epsilon,
                          Precision precision) {
  double sum = 0, squares = 0;
  for (float const one : x) sum += static_cast<double>(one);
  double const mean = sum / static_cast<double>(x.size());
  for (float const one : x) squares += std::pow(static_cast<double>(one) - mean, 2);
  double const scale = 1 / std::sqrt(squares / static_cast<double>(x.size()) + epsilon);
  Numbers result(x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    result[i] =
        as(precision, static_cast<float>((static_cast<double>(x[i]) - mean) * scale) * gains[i] + biases[i]);
  return result;
}
/// By tanh.
inline float gelu(float x) {
  float const inner = 0.7978845608f * (x + 0.044715f * x * x * x);
  return 0.5f * x * (1 + std::tanh(inner));
}

inline Numbers norm(Numbers const& x, Numbers const& gains, double epsilon, Precision precision) {
  double squares = 0;
  for (float const one : x) squares += static_cast<double>(one) * static_cast<double>(one);
  auto const scale = static_cast<float>(1 / std::sqrt(squares / static_cast<double>(x.size()) + epsilon));
  Numbers result(x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    result[i] = as(precision, as(precision, x[i] * scale) * gains[i]);
  return result;
}

/// Turns a head's vector by its position: pairs half a head apart, or neighbours.
inline void turn(float* head, Turn const* turns, int head_size, Precision precision,
                 bool interleaved = false) {
  for (int d = 0; d < head_size / 2; ++d) {
    auto& one = head[interleaved ? 2 * d : d];
    auto& other = head[interleaved ? 2 * d + 1 : d + head_size / 2];
    float const low = one, high = other;
    one = as(precision, low * turns[d].cosine - high * turns[d].sine);
    other = as(precision, high * turns[d].cosine + low * turns[d].sine);
  }
}

/// A query or key as scores are made of it, rounded once.
inline void norm_and_turn(Numbers& head, Numbers const& gains, double epsilon, Turn const* turns,
                          Precision precision) {
  if (!gains.empty()) head = norm(head, gains, epsilon, Precision::fp32);
  turn(head.data(), turns, static_cast<int>(head.size()), precision);
}

/// Of one query head: `keys` and `values` are [positions][head_size].
inline Numbers attention(float const* query, Numbers const& keys, Numbers const& values, int head_size,
                         Precision precision = Precision::fp32) {
  auto const positions = static_cast<int>(keys.size()) / head_size;
  Numbers weights;
  float most = -INFINITY;
  for (int p = 0; p < positions; ++p) {
    float score = 0;
    for (int d = 0; d < head_size; ++d) score += query[d] * keys[at(p, d, head_size)];
    weights.push_back(score / std::sqrt(static_cast<float>(head_size)));
    most = std::fmax(most, weights.back());
  }
  float total = 0;
  for (auto& one : weights) total += one = std::exp(one - most);
  Numbers result(static_cast<std::size_t>(head_size));
  for (int p = 0; p < positions; ++p)
    for (int d = 0; d < head_size; ++d)
      result[static_cast<std::size_t>(d)] +=
          as(precision, weights[static_cast<std::size_t>(p)] / total) * values[at(p, d, head_size)];
  return result;
}

struct Layer {
  Numbers attention_norm, q, k, v, o, mlp_norm, gate, up, down;
  Numbers q_bias, k_bias, v_bias, o_bias, q_norm, k_norm;  ///< empty: the model has none
  Numbers attention_norm_bias, mlp_norm_bias, up_bias, down_bias;
};

/// Random weights that bf16 holds; what layers add is about as large as what they read.
struct Weights {
  Model model;
  std::vector<Layer> layers;
  Numbers embedding, norm, head;
  Numbers norm_bias, positions;  ///< empty: the model has none

  Weights(Model const& of, unsigned seed) : model(of), random_(seed) {
    auto const& m = model;
    for (int i = 0; i < m.layers; ++i) {
      Layer l;
      l.attention_norm = gains(m.hidden), l.mlp_norm = gains(m.hidden);
      l.q = matrix(m.attended(), m.hidden, 2), l.k = matrix(m.kv_heads * m.head_size, m.hidden, 2);
      l.v = matrix(m.kv_heads * m.head_size, m.hidden, 1), l.o = matrix(m.hidden, m.attended(), 1);
      if (!m.gelu) l.gate = matrix(m.intermediate, m.hidden, 1);
      l.up = matrix(m.intermediate, m.hidden, 1);
      l.down = matrix(m.hidden, m.intermediate, 1);
      add_extras(l);
      layers.push_back(std::move(l));
    }
    embedding = matrix(m.vocabulary, m.hidden, std::sqrt(static_cast<double>(m.hidden)));
    norm = gains(m.hidden);
    if (!m.tied) head = matrix(m.vocabulary, m.hidden, 1);
    if (m.layer_norms) norm_bias = biases(m.hidden);
    // The mean of what layers read is not 0.
    if (m.learned_positions > 0) positions = normal(at(m.learned_positions, 0, m.hidden), 0.5, 1);
  }
  Numbers const& head_matrix() const { return model.tied ? embedding : head; }

 private:
  /// Biases about as large as what they are added to.
  void add_extras(Layer& l) {
    auto const& m = model;
    if (m.qkv_biases) {
      l.q_bias = biases(m.attended()), l.k_bias = biases(m.kv_heads * m.head_size);
      l.v_bias = biases(m.kv_heads * m.head_size);
    }
    if (m.out_biases) l.o_bias = biases(m.hidden);
    if (m.norms_heads) l.q_norm = gains(m.head_size), l.k_norm = gains(m.head_size);
    if (m.layer_norms) l.attention_norm_bias = biases(m.hidden), l.mlp_norm_bias = biases(m.hidden);
    if (m.mlp_biases) l.up_bias = biases(m.intermediate), l.down_bias = biases(m.hidden);
  }
  Numbers biases(int count) { return normal(static_cast<std::size_t>(count), 0, 1); }
  Numbers normal(std::size_t count, double mean, double deviation) {
    std::normal_distribution<double> distribution(mean, deviation);
    Numbers result(count);
    for (auto& one : result) one = rounded(static_cast<float>(distribution(random_)));
    return result;
  }
  Numbers gains(int count) { return normal(static_cast<std::size_t>(count), 1, 0.2); }
  Numbers matrix(int rows, int columns, double times) {
    return normal(static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns), 0,
                  times / std::sqrt(static_cast<double>(columns)));
  }
  std::mt19937 random_;
};

/// Of rows of a cache the last `count`; 0: all.
inline Numbers last_rows(Numbers const& rows, int count, int columns) {
  auto const wanted = count > 0 ? at(count, 0, columns) : rows.size();
  return {rows.end() - static_cast<std::ptrdiff_t>(std::min(wanted, rows.size())), rows.end()};
}

/// One sequence.
class Sequence {
 public:
  Sequence(Weights const& weights, Precision precision, int capacity)
      : w_(weights),
        precision_(precision),
        turns_(weights.model.learned_positions > 0
                   ? std::vector<Turn>(at(capacity, 0, weights.model.head_size / 2))
                   : rotation_table(weights.model.rotation, weights.model.head_size, capacity)),
        cache_(weights.layers.size()) {}

  /// Reads a token; logits.
  Numbers step(int token) {
    auto const& m = w_.model;
    Numbers x(w_.embedding.begin() + static_cast<std::ptrdiff_t>(at(token, 0, m.hidden)),
              w_.embedding.begin() + static_cast<std::ptrdiff_t>(at(token + 1, 0, m.hidden)));
    if (m.learned_positions > 0) {
      auto const first = w_.positions.begin() + static_cast<std::ptrdiff_t>(at(position_, 0, m.hidden));
      add(x, Numbers(first, first + m.hidden));
    }
    for (std::size_t l = 0; l < w_.layers.size(); ++l) {
      auto const& layer = w_.layers[l];
      int const window = static_cast<int>(l) >= m.window_from ? m.window : 0;
      add(x, attended(layer, cache_[l], normed(x, layer.attention_norm, layer.attention_norm_bias), window));
      add(x, through(layer.down, activated(layer, normed(x, layer.mlp_norm, layer.mlp_norm_bias)),
                     layer.down_bias));
    }
    ++position_;
    return through(w_.head_matrix(), normed(x, w_.norm, w_.norm_bias));
  }

 private:
  struct Cached {
    std::vector<Numbers> keys, values;  ///< of each key head
  };

  Numbers normed(Numbers const& x, Numbers const& gains, Numbers const& biases = {}) const {
    double const epsilon = w_.model.norm_epsilon;
    return biases.empty() ? norm(x, gains, epsilon, precision_)
                          : layer_norm(x, gains, biases, epsilon, precision_);
  }
  /// What the last product of the MLP reads.
  Numbers activated(Layer const& layer, Numbers const& in) const {
    auto up = through(layer.up, in, layer.up_bias);
    if (w_.model.gelu) {
      for (auto& one : up) one = as(precision_, gelu(one));
      return up;
    }
    auto const gate = through(layer.gate, in);
    for (std::size_t i = 0; i < gate.size(); ++i)
      up[i] = as(precision_, as(precision_, gate[i] / (1 + std::exp(-gate[i]))) * up[i]);
    return up;
  }
  Numbers through(Numbers const& weights, Numbers const& x, Numbers const& bias = {}) const {
    auto result = product(weights, x);
    for (std::size_t i = 0; i < bias.size(); ++i) result[i] += bias[i];
    return as(precision_, result);
  }
  /// A head's query or key as scores are made of it.
  void prepare(float* head, Numbers const& gains) const {
    int const size = w_.model.head_size;
    if (!gains.empty()) {
      auto const in = normed(Numbers(head, head + size), gains);
      std::copy(in.begin(), in.end(), head);
    }
    turn(head, turns_.data() + at(position_, 0, size / 2), size, precision_, w_.model.rotation.interleaved);
  }
  void add(Numbers& x, Numbers const& more) const {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = as(precision_, x[i] + more[i]);
  }
  Numbers attended(Layer const& layer, Cached& cached, Numbers const& x, int window) const {
    auto const& m = w_.model;
    auto q = through(layer.q, x, layer.q_bias), k = through(layer.k, x, layer.k_bias);
    auto const v = through(layer.v, x, layer.v_bias);
    cached.keys.resize(static_cast<std::size_t>(m.kv_heads));
    cached.values.resize(static_cast<std::size_t>(m.kv_heads));
    Numbers result;
    for (int h = 0; h < m.kv_heads; ++h) {
      auto const n = static_cast<std::size_t>(h);
      auto const first = static_cast<std::ptrdiff_t>(at(h, 0, m.head_size));
      prepare(k.data() + first, layer.k_norm);
      cached.keys[n].insert(cached.keys[n].end(), k.begin() + first, k.begin() + first + m.head_size);
      cached.values[n].insert(cached.values[n].end(), v.begin() + first, v.begin() + first + m.head_size);
      auto const keys = last_rows(cached.keys[n], window, m.head_size);
      auto const values = last_rows(cached.values[n], window, m.head_size);
      for (int g = 0; g < m.group(); ++g) {
        auto* const query = q.data() + at(h * m.group() + g, 0, m.head_size);
        prepare(query, layer.q_norm);
        auto const one = attention(query, keys, values, m.head_size, precision_);
        result.insert(result.end(), one.begin(), one.end());
      }
    }
    return through(layer.o, as(precision_, result), layer.o_bias);
  }

  Weights const& w_;
  Precision precision_;
  std::vector<Turn> turns_;
  std::vector<Cached> cache_;
  int position_ = 0;
};

inline int most_likely(Numbers const& logits) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < logits.size(); ++i)
    if (logits[i] > logits[best]) best = i;
  return static_cast<int>(best);
}

/// |found - expected| / |expected|; NaN if any is NaN.
inline double relative_error(Numbers const& found, Numbers const& expected) {
  double off = 0, all = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    off += std::pow(static_cast<double>(found[i]) - static_cast<double>(expected[i]), 2);
    all += std::pow(static_cast<double>(expected[i]), 2);
  }
  return std::sqrt(off / all);
}

/// Two layers with heads of 64: what a test has the patience for.
inline Model small_model(int head_size = 64, int kv_heads = 2, int group = 2) {
  Model m;
  m.name = "small";
  m.layers = 2;
  m.hidden = 256, m.intermediate = 512;
  m.heads = kv_heads * group, m.kv_heads = kv_heads, m.head_size = head_size;
  m.vocabulary = 512;
  m.rotation.theta = 500000;
  m.rotation.factor = 32;
  return m;
}
/// As Qwen 2.5 and 3 have them.
inline Model with_biases(Model m) {
  m.qkv_biases = true;
  return m;
}
/// As Helium and Ernie 4.5 have them.
inline Model with_interleaved(Model m) {
  m.rotation.interleaved = true;
  return m;
}
inline Model with_window(Model m, int keys, int from = 0) {
  m.window = keys, m.window_from = from;
  return m;
}
/// As GPT-2 is: a vocabulary of any size.
inline Model small_gpt2(int heads = 4) {
  auto m = small_model(64, heads, 1);
  m.name = "small-gpt2";
  m.vocabulary = 523;
  m.tied = m.gelu = m.layer_norms = true;
  m.qkv_biases = m.out_biases = m.mlp_biases = true;
  m.learned_positions = 256;
  return m;
}
/// As Phi 3's files are, with heads of 96.
inline Model small_phi3() {
  auto m = small_model(96, 2, 3);
  m.joined_files = true;
  return m;
}
inline Model with_norms(Model m) {
  m.norms_heads = true;
  return m;
}

}  // namespace tessera::decode::reference
