// SPDX-License-Identifier: Apache-2.0
// A problem with its operands on the GPU: random numbers in the rows of sequences, no numbers in all others,
// and results held to plain arithmetic: at most twice as wrong as attention whose scores, weights and results
// are each rounded to the type.
#pragma once

#include <gmock/gmock.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gpu/device_buffer.hpp"
#include "kernels/attention_sm90/attention.hpp"
#include "kernels/attention_sm90/plain.hpp"
#include "support/assert_ok.hpp"

namespace tessera::attention_sm90 {

using Bits = std::uint16_t;
constexpr Bits k_no_number = 0x7fff;  ///< of both types

inline Bits bits_of(float value, ElementType type) {
  value = rounded(value, type);
  if (type == ElementType::bf16) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, 4);
    return static_cast<Bits>(bits >> 16);
  }
  if (value == 0) return 0;
  int exponent = 0;
  float const fraction = std::frexp(std::fabs(value), &exponent);  // of 1/2 to 1
  auto const sign = static_cast<Bits>(value < 0 ? 0x8000 : 0);
  if (exponent < -13) return static_cast<Bits>(sign | static_cast<Bits>(std::ldexp(std::fabs(value), 24)));
  return static_cast<Bits>(sign | ((exponent + 14) << 10) |
                           (static_cast<Bits>(std::ldexp(fraction, 11)) & 0x3ff));
}
inline float number_of(Bits bits, ElementType type) {
  if (type == ElementType::bf16) {
    std::uint32_t const wide = static_cast<std::uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &wide, 4);
    return value;
  }
  int const exponent = bits >> 10 & 31, fraction = bits & 0x3ff;
  if (exponent == 31) return fraction != 0 ? NAN : INFINITY;
  float const size = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                   : std::ldexp(static_cast<float>(fraction + 0x400), exponent - 25);
  return (bits & 0x8000) != 0 ? -size : size;
}

/// Heads of an array: where each begins in a row, and how many numbers it has in all.
struct Rows {
  Strides strides;
  int heads = 0, group = 1, rows = 0;

  std::size_t at(long long row, int head, int d) const {
    return static_cast<std::size_t>(row * strides.row + head / group * strides.group +
                                    head % group * strides.head + d);
  }
};

class Case {
 public:
  /// `deviation`: of queries and keys.
  Case(Problem const& problem, HostLengths lengths, float deviation = 1)
      : p_(completed(problem)), lengths_(std::move(lengths)), deviation_(deviation) {
    int const group = p_.heads / p_.key_heads;
    q_ = {p_.q, p_.heads, group, p_.query_rows};
    k_ = {p_.k, p_.key_heads, 1, p_.key_rows};
    v_ = {p_.v, p_.key_heads, 1, p_.key_rows};
    out_ = {p_.out, p_.heads, group, p_.query_rows};
    host_q_ = numbers(q_, false, 1);
    host_k_ = numbers(k_, true, 2);
    host_v_ = numbers(v_, true, 3);
    out_memory_ = std::make_unique<gpu::DeviceBuffer<Bits>>(size_of(out_), 0xff);
    upload();
  }

  Problem& problem() { return p_; }
  std::vector<Bits>& host_q() { return host_q_; }
  std::vector<Bits>& host_k() { return host_k_; }
  std::vector<Bits>& host_v() { return host_v_; }
  Rows const& q() const { return q_; }
  Rows const& k() const { return k_; }
  Rows const& v() const { return v_; }
  Rows const& out() const { return out_; }
  HostLengths& lengths() { return lengths_; }
  void* device_q() const { return q_memory_->get(); }
  void* device_k() const { return k_memory_->get(); }
  void* device_v() const { return v_memory_->get(); }
  void* device_out() const { return out_memory_->get(); }

  void upload() {
    put(q_memory_, host_q_);
    put(k_memory_, host_k_);
    put(v_memory_, host_v_);
    put(query_offsets_, lengths_.query_offsets);
    put(key_offsets_, lengths_.key_offsets);
    put(key_lengths_, lengths_.key_lengths);
    auto const pointer = [](auto const& memory, bool any) { return any ? memory->get() : nullptr; };
    p_.query_offsets = pointer(query_offsets_, !lengths_.query_offsets.empty());
    p_.key_offsets = pointer(key_offsets_, !lengths_.key_offsets.empty());
    p_.key_lengths = pointer(key_lengths_, !lengths_.key_lengths.empty());
  }

  void clear() { out_memory_->fill(0xff); }
  /// `tile_queries`: of Call.
  void run(int tile_queries = 0) {
    Call call;
    call.problem = p_;
    call.q = device_q();
    call.k = device_k();
    call.v = device_v();
    call.out = device_out();
    call.tile_queries = tile_queries;
    ASSERT_OK(launch(call, nullptr));
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess) << cudaGetErrorString(cudaGetLastError());
  }
  std::vector<Bits> results() const { return out_memory_->download(); }
  float result(std::vector<Bits> const& results, long long row, int head, int d) const {
    return number_of(results[out_.at(row, head, d)], p_.type);
  }

  std::vector<float> plain(Rounding rounding) const {
    gpu::DeviceBuffer<float> result(size_of(out_));
    EXPECT_EQ(plain_attention(p_, device_q(), device_k(), device_v(), result.get(), rounding, nullptr),
              cudaSuccess);
    return result.download();
  }

  /// Runs it and compares each element of each sequence, and that nothing else is written.
  void check(int tile_queries = 0) {
    clear();
    run(tile_queries);
    if (::testing::Test::HasFatalFailure()) return;
    compare(results());
  }

  void compare(std::vector<Bits> const& got) const {
    auto const exact = plain(Rounding::none), rounded_each = plain(Rounding::each);
    std::vector<bool> written(got.size(), false);
    double error = 0, allowed = 0, all = 0, worst = 0, worst_allowed = 0;
    for_each([&](int, int, int, std::size_t at) {
      written[at] = true;
      double const is = double{number_of(got[at], p_.type)}, should = double{exact[at]};
      double const off = double{rounded_each[at]} - should;
      error += (is - should) * (is - should);
      allowed += off * off;
      all += should * should;
      worst = std::isnan(is) ? INFINITY : std::max(worst, std::fabs(is - should));
      worst_allowed = std::max(worst_allowed, std::fabs(off));
    });
    // Results alone are rounded in ours; with few keys the others' weights may happen to be exact.
    double const unit = p_.type == ElementType::bf16 ? 0x1p-9 : 0x1p-12;
    double const tiny = all * unit * unit;
    EXPECT_LE(std::sqrt(error), 2 * std::sqrt(allowed + tiny))
        << "of " << std::sqrt(all) << first_wrong(got, exact);
    EXPECT_LE(worst, 2 * worst_allowed + 4 * unit) << first_wrong(got, exact);
    std::size_t touched = 0;
    for (std::size_t i = 0; i < got.size(); ++i) touched += !written[i] && got[i] != 0xffff;
    EXPECT_EQ(touched, 0U) << "elements of no sequence are written";
  }

  /// Each element of a result: sequence, query, head, and where it is in `out`.
  template <class Visit>
  void for_each(Visit const& visit) const {
    for (int n = 0; n < p_.sequences; ++n) {
      auto const s = sequence_of(p_, lengths_, n);
      for (int query = 0; query < s.queries; ++query)
        for (int head = 0; head < p_.heads; ++head)
          for (int d = 0; d < p_.head_size; ++d)
            visit(n, query, head, out_.at(s.first_query + query, head, d));
    }
  }

 private:
  std::size_t size_of(Rows const& rows) const {
    return rows.at(rows.rows - 1, rows.heads - 1, p_.head_size - 1) + 1;
  }
  template <class T>
  static void put(std::unique_ptr<gpu::DeviceBuffer<T>>& memory, std::vector<T> const& from) {
    if (!memory) memory = std::make_unique<gpu::DeviceBuffer<T>>(from.size());
    if (!from.empty()) memory->upload(from);
  }

  std::vector<Bits> numbers(Rows const& rows, bool of_keys, unsigned seed) {
    std::vector<Bits> result(size_of(rows), k_no_number);
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, seed == 3 ? 1 : deviation_);
    // Drawing each number takes longer than all else.
    std::vector<Bits> drawn(1 << 14);
    for (auto& one : drawn) one = bits_of(normal(random), p_.type);
    for (int n = 0; n < p_.sequences; ++n) {
      auto const s = sequence_of(p_, lengths_, n);
      int const first = of_keys ? s.first_key : s.first_query, count = of_keys ? s.keys : s.queries;
      for (int row = first; row < first + count; ++row)
        for (int head = 0; head < rows.heads; ++head) {
          auto from = random();
          for (int d = 0; d < p_.head_size; ++d) result[rows.at(row, head, d)] = drawn[from++ % drawn.size()];
        }
    }
    return result;
  }

  std::string first_wrong(std::vector<Bits> const& got, std::vector<float> const& exact) const {
    constexpr int most = 12;
    std::string text;
    long long wrong = 0, elements = 0;
    std::vector<long long> by_column(static_cast<std::size_t>(p_.head_size / 8)), by_row(8);
    for_each([&](int n, int query, int head, std::size_t at) {
      float const is = number_of(got[at], p_.type), should = exact[at];
      ++elements;
      if (std::fabs(is - should) <= 0.02f + 0.02f * std::fabs(should)) return;
      auto const& out = out_;
      auto const s = sequence_of(p_, lengths_, n);
      auto const d = static_cast<int>(at - out.at(s.first_query + query, head, 0));
      ++by_column[static_cast<std::size_t>(d / 8)];
      ++by_row[static_cast<std::size_t>(query % 128 / 16)];
      if (++wrong <= most)
        text += "\n  sequence " + std::to_string(n) + " (" + std::to_string(s.queries) + " queries, " +
                std::to_string(s.keys) + " keys) query " + std::to_string(query) + " head " +
                std::to_string(head) + " column " + std::to_string(d) + ": " + std::to_string(is) + ", not " +
                std::to_string(should);
    });
    text += "\n  " + std::to_string(wrong) + " of " + std::to_string(elements) + " far off; by 8 columns:";
    for (auto const count : by_column) text += " " + std::to_string(count);
    text += "; by 16 queries of a tile:";
    for (auto const count : by_row) text += " " + std::to_string(count);
    return text;
  }

  Problem p_;
  HostLengths lengths_;
  float deviation_;
  Rows q_, k_, v_, out_;
  std::vector<Bits> host_q_, host_k_, host_v_;
  std::unique_ptr<gpu::DeviceBuffer<Bits>> q_memory_, k_memory_, v_memory_, out_memory_;
  std::unique_ptr<gpu::DeviceBuffer<int>> query_offsets_, key_offsets_, key_lengths_;
};

inline Problem problem_of(int head_size, int heads, int key_heads, int rows,
                          ElementType type = ElementType::bf16) {
  Problem p;
  p.type = type;
  p.heads = heads;
  p.key_heads = key_heads;
  p.head_size = head_size;
  p.query_rows = rows;
  return p;
}

/// Sequences of these lengths, one behind the other.
inline std::vector<int> offsets_of(std::vector<int> const& lengths) {
  std::vector<int> offsets{0};
  for (int const length : lengths) offsets.push_back(offsets.back() + length);
  return offsets;
}

}  // namespace tessera::attention_sm90
