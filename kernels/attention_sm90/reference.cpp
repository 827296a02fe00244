// SPDX-License-Identifier: Apache-2.0
#include "reference.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "dropout.hpp"

namespace tessera::attention_sm90 {
namespace {

std::size_t index(long long value) { return static_cast<std::size_t>(value); }

/// One query of one head.
class Row {
 public:
  Row(Problem const& p, Rounding rounding) : p_(p), rounding_(rounding) {}

  void compute(Sequence const& sequence, int number, int head, int query, float const* q, float const* k,
               float const* v, float* out) {
    auto const keys = Sight{p_.causal, p_.window}.of(sequence, query);
    int const key_head = head / (p_.heads / p_.key_heads);
    k += key_head * p_.k.head + sequence.first_key * p_.k.row;
    v += key_head * p_.v.head + sequence.first_key * p_.v.row;
    weights_.assign(index(std::max(0, keys.end - keys.begin)), 0);
    float largest = -INFINITY;
    for (int key = keys.begin; key < keys.end; ++key) {
      double sum = 0;
      for (int d = 0; d < p_.head_size; ++d) sum += double{q[d]} * double{k[key * p_.k.row + d]};
      auto& score = weights_[index(key - keys.begin)];
      score = round(round(static_cast<float>(sum)) * p_.scale);
      largest = std::max(largest, score);
    }
    double all = 0;
    for (auto& weight : weights_) {
      weight = std::exp(weight - largest);
      all += double{weight};
    }
    double const scale = 1 / (all * (1 - drop_below(p_.drop) / 65536.0));
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      bool const drops = p_.drop > 0 && drop_number(p_.seed, number, head, query,
                                                    keys.begin + static_cast<int>(i)) < drop_below(p_.drop);
      weights_[i] = drops ? 0 : round(static_cast<float>(double{weights_[i]} * scale));
    }
    for (int d = 0; d < p_.head_size; ++d) {
      double sum = 0;
      for (int key = keys.begin; key < keys.end; ++key)
        if (auto const weight = weights_[index(key - keys.begin)]; weight != 0)
          sum += double{weight} * double{v[key * p_.v.row + d]};
      out[d] = round(static_cast<float>(sum));
    }
  }

 private:
  float round(float value) const { return rounding_ == Rounding::each ? rounded(value, p_.type) : value; }

  Problem const& p_;
  Rounding rounding_;
  std::vector<float> weights_;
};

}  // namespace

Sequence sequence_of(Problem const& problem, HostLengths const& lengths, int number) {
  auto const p = completed(problem);
  auto const at = index(number);
  Sequence s{number * step_of(p.query_rows, p.sequences, p.query_step),
             rows_each(p.query_rows, p.sequences, p.query_step),
             number * step_of(p.key_rows, p.sequences, p.key_step),
             rows_each(p.key_rows, p.sequences, p.key_step)};
  if (!lengths.query_offsets.empty()) {
    s.first_query = lengths.query_offsets[at];
    s.queries = lengths.query_offsets[at + 1] - s.first_query;
  }
  if (!lengths.key_offsets.empty()) {
    s.first_key = lengths.key_offsets[at];
    if (lengths.key_lengths.empty()) s.keys = lengths.key_offsets[at + 1] - s.first_key;
  }
  if (!lengths.key_lengths.empty()) s.keys = lengths.key_lengths[at];
  return s;
}

void reference(Problem const& problem, HostLengths const& lengths, std::vector<float> const& q,
               std::vector<float> const& k, std::vector<float> const& v, std::vector<float>& out,
               Rounding rounding) {
  auto const p = completed(problem);
  int const group = p.heads / p.key_heads;
  Row row(p, rounding);
  for (int number = 0; number < p.sequences; ++number) {
    auto const sequence = sequence_of(p, lengths, number);
    for (int query = 0; query < sequence.queries; ++query)
      for (int head = 0; head < p.heads; ++head) {
        auto const place = [&](Strides const& s) {
          return index((sequence.first_query + query) * s.row + head / group * s.group +
                       head % group * s.head);
        };
        row.compute(sequence, number, head, query, q.data() + place(p.q), k.data(), v.data(),
                    out.data() + place(p.out));
      }
  }
}

float rounded(float value, ElementType type) {
  if (!std::isfinite(value)) return value;
  if (type == ElementType::bf16) {
    auto const bits = std::bit_cast<std::uint32_t>(value);
    return std::bit_cast<float>((bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u);
  }
  // 11 bits, fewer below 2^-14, none above 65504.
  int exponent = 0;
  std::frexp(value, &exponent);
  float const unit = std::ldexp(1.0f, std::max(exponent - 11, -24));
  float const result = std::nearbyint(value / unit) * unit;
  return std::fabs(result) > 65504.0f ? std::copysign(INFINITY, value) : result;
}

}  // namespace tessera::attention_sm90
