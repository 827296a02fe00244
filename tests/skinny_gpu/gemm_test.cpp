// SPDX-License-Identifier: Apache-2.0
// Products of few rows against sums in double.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "gpu/device_buffer.hpp"
#include "kernels/skinny_gemm_sm90/skinny_gemm.hpp"

namespace {

using namespace tessera::skinny_gemm;

unsigned short narrow(float value) {
  unsigned bits;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<unsigned short>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}
float wide(unsigned short half) {
  unsigned const bits = static_cast<unsigned>(half) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

std::vector<unsigned short> numbers(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> between(-1, 1);
  std::vector<unsigned short> result(count);
  for (auto& one : result) one = narrow(between(random));
  return result;
}

struct Arrays {
  explicit Arrays(Problem const& p)
      : problem(p),
        input(numbers(size(p.rows, p.depth), 1)),
        weights(numbers(size(p.columns, p.depth), 2)),
        x(input.size()),
        w(weights.size()),
        y(size(p.rows + 1, p.columns)) {
    x.upload(input), w.upload(weights);
  }
  static std::size_t size(int rows, int columns) {
    return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
  }
  double sum(int row, int column) const {
    double result = 0;
    for (int k = 0; k < problem.depth; ++k)
      result += static_cast<double>(wide(input[size(row, problem.depth) + static_cast<std::size_t>(k)])) *
                static_cast<double>(wide(weights[size(column, problem.depth) + static_cast<std::size_t>(k)]));
    return result;
  }

  Problem problem;
  std::vector<unsigned short> input, weights;
  tessera::gpu::DeviceBuffer<unsigned short> x, w;
  tessera::gpu::DeviceBuffer<float> y;  ///< a row more than there is: nobody writes it
};

/// Runs it on what is there, and says how far the worst number is, by what sums in fp32 and one rounding
/// allow.
void expect_right(Arrays& a, Config const& config) {
  auto const& p = a.problem;
  SCOPED_TRACE(testing::Message() << p.rows << " x " << p.columns << " x " << p.depth << ", result "
                                  << static_cast<int>(p.result) << ", " << config.columns
                                  << " columns, split " << config.split << ", " << config.stages << " x "
                                  << config.stage_depth);
  constexpr float k_was = 0.5f;
  a.y.upload(std::vector<float>(a.y.size(), k_was));
  ASSERT_EQ(launch(p, config, {a.x.get(), a.w.get(), a.y.get()}, nullptr), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  auto const got = a.y.download();
  auto const* const halves = reinterpret_cast<unsigned short const*>(got.data());
  bool const narrow_result = p.result == Result::bf16 || p.result == Result::gated;
  int const features = p.result == Result::gated ? p.columns / 2 : p.columns;
  double const of_sums = 1e-5 * std::sqrt(p.depth);
  // Not all: columns of each block's edges, and some between.
  for (int row = 0; row < p.rows; ++row)
    for (int i = 0; i < features; i += i % 32 < 2 ? 1 : 5) {
      double expected = 0;
      if (p.result == Result::gated) {
        double const gate = a.sum(row, 2 * i);
        expected = gate / (1 + std::exp(-gate)) * a.sum(row, 2 * i + 1);
      } else {
        expected = a.sum(row, i) + (p.result == Result::added ? static_cast<double>(k_was) : 0);
      }
      auto const at = Arrays::size(row, features) + static_cast<std::size_t>(i);
      double const is = static_cast<double>(narrow_result ? wide(halves[at]) : got[at]);
      double const slack = (narrow_result ? std::abs(expected) / 256 : 0) +
                           of_sums * (p.result == Result::gated ? 1 + std::abs(expected) : 1);
      ASSERT_NEAR(is, expected, slack) << "row " << row << ", column " << i;
    }
  // Behind the last number nothing has been written.
  auto const written = Arrays::size(p.rows, features) * (narrow_result ? 2 : 4);
  auto const* const bytes = reinterpret_cast<unsigned char const*>(got.data());
  for (std::size_t i = written / 4; i < got.size(); ++i) {
    float there;
    std::memcpy(&there, bytes + 4 * i, sizeof there);
    ASSERT_EQ(there, k_was) << "word " << i;
  }
}

constexpr Result k_results[] = {Result::bf16, Result::fp32, Result::added, Result::gated};

TEST(SkinnyGemm, RowsOfEachInstruction) {
  ASSERT_EQ(load(), cudaSuccess);
  for (int const rows : {1, 8, 13, 16, 17, 32, 33, 48, 63, 64}) {
    Arrays a({rows, 192, 512});
    for (auto const& config : configs(a.problem, 132)) expect_right(a, config);
  }
}

TEST(SkinnyGemm, EachResult) {
  ASSERT_EQ(load(), cudaSuccess);
  for (auto const result : k_results)
    for (int const rows : {5, 24, 64}) {
      Arrays a({rows, 512, 256, result});
      for (auto const& config : configs(a.problem, 132)) expect_right(a, config);
    }
}

// Columns that no tile divides, depths that no cluster and no stage divides, and rings that turn often.
TEST(SkinnyGemm, RaggedSizesAndRings) {
  ASSERT_EQ(load(), cudaSuccess);
  for (int const columns : {8, 72, 200})
    for (auto const& [rows, depth] : {std::pair{20, 64}, {20, 896}, {3, 320}, {64, 320}})
      for (auto const result : {Result::added, Result::gated}) {
        Arrays a({rows, columns, depth, result});
        for (int const tile : {16, 48, 64, 80, 112, 128})
          for (int const split : {1, 2, 4, 8})
            for (auto const& [stage_depth, stages] : {std::pair{2, 2}, {2, 3}, {4, 2}})
              expect_right(a, {tile, split, stage_depth, stages});
      }
}

TEST(SkinnyGemm, OneBehindTheOther) {
  ASSERT_EQ(load(), cudaSuccess);
  // The second reads what the first wrote: it may load weights early, and nothing else.
  Problem const first{16, 1024, 512, Result::bf16}, second{16, 512, 1024, Result::fp32};
  Arrays a(first), b(second);
  auto const one = configs(first, 132).front(), other = configs(second, 132).front();
  auto const run = [&] {
    ASSERT_EQ(launch(first, one, {a.x.get(), a.w.get(), a.y.get()}, nullptr), cudaSuccess);
    ASSERT_EQ(launch(second, other, {a.y.get(), b.w.get(), b.y.get()}, nullptr), cudaSuccess);
  };
  run();
  auto const expected = b.y.download();
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(cudaMemsetAsync(a.y.get(), i, a.y.size() * 4, nullptr), cudaSuccess);
    run();
    ASSERT_EQ(b.y.download(), expected) << "run " << i;
  }
}

}  // namespace
