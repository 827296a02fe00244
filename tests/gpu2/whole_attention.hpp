// SPDX-License-Identifier: Apache-2.0
// An attention block on one GPU, in fp32 without tensor cores, from the weights of the whole layer; and what
// a rank of several is given of it.
#pragma once

#include <cmath>
#include <vector>

#include "kernels/attention_sm90/plain.hpp"
#include "kernels/gemm_collectives/parallel_attention.hpp"
#include "src/bench/matrices.hpp"
#include "src/gpu/check.hpp"
#include "src/gpu/device_buffer.hpp"

namespace tessera::gemm_collectives {

/// On the current GPU; the same numbers on each. What kernels round between the operators is rounded here.
class WholeAttention {
 public:
  using Bits = std::vector<unsigned short>;

  /// `of_sequences`: offsets of ragged ones, which all tokens are of.
  WholeAttention(AttentionProblem const& problem, unsigned seed, std::vector<int> const& of_sequences = {})
      : offsets(of_sequences), problem_(problem) {
    x = random(tokens() * model(), seed, 1);
    w_in_ = random(model() * all_columns(), seed + 100, 1 / std::sqrt(static_cast<float>(problem.model)));
    // Averages of values are smaller than values: what y is made of is not to vanish.
    w_out_ = random(model() * depth(), seed + 200, 4 / std::sqrt(static_cast<float>(depth())));
    make_turns();
    make_positions();
    make_y();
  }

  Bits x;                     ///< [tokens][model]
  std::vector<float2> turns;  ///< [tokens][head_size / 2]
  std::vector<int> positions, offsets;
  std::vector<float> y;  ///< [tokens][model]

  Bits w_in(int rank) const {
    Bits rows;
    for (int const row : rows_of_rank(problem_, rank)) {
      auto const begin = w_in_.begin() + static_cast<std::ptrdiff_t>(row) * problem_.model;
      rows.insert(rows.end(), begin, begin + problem_.model);
    }
    return rows;
  }
  Bits w_out(int rank) const {
    Bits columns;
    auto const local = static_cast<std::ptrdiff_t>(problem_.local_heads()) * problem_.head_size;
    for (int row = 0; row < problem_.model; ++row) {
      auto const begin = w_out_.begin() +
                         static_cast<std::ptrdiff_t>(row) * static_cast<std::ptrdiff_t>(depth()) +
                         rank * local;
      columns.insert(columns.end(), begin, begin + local);
    }
    return columns;
  }
  /// Elements of y from a row on, on the current GPU.
  double error(void const* got, RowRange rows, cudaStream_t stream) const {
    auto const first = static_cast<std::size_t>(rows.begin) * model();
    auto const count = static_cast<std::size_t>(rows.rows()) * model();
    if (count == 0) return 0;
    gpu::DeviceBuffer<float> expected(count);
    gpu::ok(cudaMemcpy(expected.get(), y.data() + first, sizeof(float) * count, cudaMemcpyHostToDevice));
    return bench::relative_error(got, expected.get(), count, problem_.type, stream);
  }

 private:
  std::size_t tokens() const { return static_cast<std::size_t>(problem_.tokens); }
  std::size_t model() const { return static_cast<std::size_t>(problem_.model); }
  std::size_t half() const { return static_cast<std::size_t>(problem_.head_size / 2); }
  std::size_t depth() const { return static_cast<std::size_t>(problem_.heads * problem_.head_size); }
  int columns() const { return problem_.ranks * problem_.local_columns(); }
  std::size_t all_columns() const { return static_cast<std::size_t>(columns()); }

  Bits random(std::size_t count, unsigned seed, float deviation) const {
    gpu::DeviceBuffer<unsigned short> numbers(count);
    bench::fill_random(numbers.get(), count, problem_.type, seed, deviation, nullptr);
    return numbers.download();
  }
  void make_turns() {
    for (std::size_t position = 0; position < tokens(); ++position)
      for (std::size_t d = 0; d < half(); ++d) {
        double const angle = static_cast<double>(position) *
                             std::pow(10000.0, -static_cast<double>(d) / static_cast<double>(half()));
        turns.push_back({static_cast<float>(std::cos(angle)), static_cast<float>(std::sin(angle))});
      }
  }
  void make_positions() {
    std::size_t sequence = 0;
    for (int token = 0; token < problem_.tokens; ++token) {
      while (problem_.ragged && token >= offsets[sequence + 1]) ++sequence;
      positions.push_back(problem_.ragged ? token - offsets[sequence]
                                          : token % (problem_.tokens / problem_.sequences));
    }
  }
  /// Rows of [query heads, key heads, value heads].
  void turn(std::vector<float>& qkv) const {
    auto const heads = static_cast<std::size_t>(problem_.heads + problem_.all_key_heads());
    for (std::size_t token = 0; token < tokens(); ++token)
      for (std::size_t head = 0; head < heads; ++head)
        turn_head(&qkv[token * all_columns() + head * 2 * half()],
                  &turns[static_cast<std::size_t>(positions[token]) * half()]);
  }
  void turn_head(float* head, float2 const* by) const {
    bool const halves = problem_.turning == Turning::halves;
    for (std::size_t d = 0; d < half(); ++d) {
      float &low = head[halves ? d : 2 * d], &high = head[halves ? d + half() : 2 * d + 1];
      float const l = low, h = high;
      low = l * by[d].x - h * by[d].y, high = h * by[d].x + l * by[d].y;
    }
  }
  Bits rounded(std::vector<float> const& numbers) const {
    gpu::DeviceBuffer<float> all(numbers.size());
    gpu::DeviceBuffer<unsigned short> to(numbers.size());
    all.upload(numbers);
    bench::reference_activation(all.get(), bench::ReferenceActivation::none, numbers.size(), nullptr,
                                to.get(), problem_.type, nullptr);
    return to.download();
  }
  std::vector<float> product(Bits const& a, Bits const& b, int columns, int depth) const {
    gpu::DeviceBuffer<unsigned short> one(a.size()), other(b.size());
    gpu::DeviceBuffer<float> sums(tokens() * static_cast<std::size_t>(columns));
    one.upload(a), other.upload(b);
    bench::reference_gemm(one.get(), other.get(), sums.get(), problem_.tokens, columns, depth, problem_.type,
                          nullptr);
    return sums.download();
  }
  std::vector<float> attention(Bits const& qkv) const {
    gpu::DeviceBuffer<unsigned short> rows(qkv.size());
    gpu::DeviceBuffer<int> of_sequences(offsets.size() + 1);
    gpu::DeviceBuffer<float> out(tokens() * depth());
    rows.upload(qkv), of_sequences.upload(offsets);
    auto p = local_attention(problem_, of_sequences.get());
    p.heads = problem_.heads;
    p.key_heads = problem_.all_key_heads();
    p.q = p.k = p.v = {columns(), problem_.head_size};
    auto const* const k = rows.get() + depth();
    auto const* const v = k + problem_.all_key_heads() * problem_.head_size;
    gpu::ok(attention_sm90::plain_attention(p, rows.get(), k, v, out.get(), attention_sm90::Rounding::none,
                                            nullptr));
    return out.download();
  }
  void make_y() {
    auto qkv = product(x, w_in_, columns(), problem_.model);
    if (problem_.turning != Turning::none) {
      for (auto& one : qkv) one = attention_sm90::rounded(one, problem_.type);
      turn(qkv);
    }
    auto const heads = rounded(attention(rounded(qkv)));
    y = product(heads, w_out_, problem_.model, static_cast<int>(depth()));
  }

  AttentionProblem problem_;
  Bits w_in_, w_out_;  ///< [queries, keys, values][model], [model][heads]
};

}  // namespace tessera::gemm_collectives
