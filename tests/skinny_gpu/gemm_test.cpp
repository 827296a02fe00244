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

/// What a product has beside its input and weights.
struct Beside {
  bool norm = false, shift = false, leaves_norm = false;
};
constexpr float k_was = 0.5f;
constexpr float k_epsilon = 0.01f;

int squares_of_row(Problem const& p) { return (p.columns + k_squares_block - 1) / k_squares_block; }

double gelu(double x) { return 0.5 * x * (1 + std::tanh(0.7978845608 * (x + 0.044715 * x * x * x))); }

/// Squares in parts, of which each row has others, and shifts.
struct BesideArrays {
  BesideArrays(Problem const& p, Beside const& beside)
      : squares(Arrays::size(p.rows, p.depth / k_squares_block)),
        shift(static_cast<std::size_t>(p.columns)),
        squares_left(Arrays::size(p.rows + 1, squares_of_row(p))),
        rounded(Arrays::size(p.rows + 1, p.columns)) {
    for (std::size_t i = 0; i < squares.size(); ++i) squares[i] = 0.5f + static_cast<float>(i % 101);
    for (std::size_t i = 0; i < shift.size(); ++i)
      shift[i] = beside.shift ? static_cast<float>(i % 13) - 6 : 0;
    device_squares.upload(squares), device_shift.upload(shift);
    device_left.upload(std::vector<float>(squares_left, k_was));
    device_rounded.upload(std::vector<unsigned short>(rounded, narrow(k_was)));
    if (beside.norm) operands.norm = {device_squares.get(), k_epsilon};
    if (beside.shift) operands.shift = device_shift.get();
    if (beside.leaves_norm) operands.rounded = device_rounded.get(), operands.squares = device_left.get();
  }
  double scale(int row, int depth) const {
    double sum = 0;
    int const parts = depth / k_squares_block;
    for (int i = 0; i < parts; ++i)
      sum += static_cast<double>(squares[Arrays::size(row, parts) + static_cast<std::size_t>(i)]);
    return 1 / std::sqrt(sum / depth + static_cast<double>(k_epsilon));
  }

  std::vector<float> squares, shift;
  std::size_t squares_left, rounded;
  tessera::gpu::DeviceBuffer<float> device_squares{squares.size()}, device_shift{shift.size()},
      device_left{squares_left};
  tessera::gpu::DeviceBuffer<unsigned short> device_rounded{rounded};
  Operands operands;
};

/// What it has left for a norm is what it has stored, rounded, and the squares of so many columns each.
void expect_norm_left(Problem const& p, BesideArrays const& beside, std::vector<float> const& stored) {
  auto const rounded = beside.device_rounded.download();
  auto const squares = beside.device_left.download();
  int const parts = squares_of_row(p);
  for (int row = 0; row < p.rows; ++row)
    for (int part = 0; part < parts; ++part) {
      double sum = 0;
      for (int c = part * k_squares_block; c < std::min(p.columns, (part + 1) * k_squares_block); ++c) {
        auto const at = Arrays::size(row, p.columns) + static_cast<std::size_t>(c);
        ASSERT_EQ(rounded[at], narrow(stored[at])) << "row " << row << ", column " << c;
        sum += static_cast<double>(stored[at]) * static_cast<double>(stored[at]);
      }
      ASSERT_NEAR(squares[Arrays::size(row, parts) + static_cast<std::size_t>(part)], sum, 1e-5 * sum)
          << "row " << row << ", part " << part;
    }
  for (auto i = Arrays::size(p.rows, p.columns); i < rounded.size(); ++i)
    ASSERT_EQ(rounded[i], narrow(k_was));
  for (auto i = Arrays::size(p.rows, parts); i < squares.size(); ++i) ASSERT_EQ(squares[i], k_was);
}

/// Runs it on what is there, and says how far the worst number is, by what sums in fp32 and one rounding
/// allow.
void expect_right(Arrays& a, Config const& config, Beside const& has = {}) {
  auto const& p = a.problem;
  SCOPED_TRACE(testing::Message() << p.rows << " x " << p.columns << " x " << p.depth << ", result "
                                  << static_cast<int>(p.result) << ", " << config.columns
                                  << " columns, split " << config.split << ", " << config.stages << " x "
                                  << config.stage_depth);
  a.y.upload(std::vector<float>(a.y.size(), k_was));
  BesideArrays beside(p, has);
  beside.operands.input = a.x.get(), beside.operands.weights = a.w.get(), beside.operands.to = a.y.get();
  ASSERT_EQ(launch(p, config, beside.operands, nullptr), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  auto const got = a.y.download();
  auto const* const halves = reinterpret_cast<unsigned short const*>(got.data());
  bool const narrow_result = p.result != Result::fp32 && p.result != Result::added;
  int const features = p.result == Result::gated ? p.columns / 2 : p.columns;
  double const of_sums = 1e-5 * std::sqrt(p.depth);
  // Not all: columns of each block's edges, and some between.
  for (int row = 0; row < p.rows; ++row) {
    double const scale = has.norm ? beside.scale(row, p.depth) : 1;
    auto const sum = [&](int column) {
      return a.sum(row, column) * scale + static_cast<double>(beside.shift[static_cast<std::size_t>(column)]);
    };
    for (int i = 0; i < features; i += i % 32 < 2 ? 1 : 5) {
      double expected = 0;
      switch (p.result) {
        case Result::gated: {
          double const gate = sum(2 * i);
          expected = gate / (1 + std::exp(-gate)) * sum(2 * i + 1);
          break;
        }
        case Result::gelu: expected = gelu(sum(i)); break;
        case Result::added: expected = sum(i) + static_cast<double>(k_was); break;
        default: expected = sum(i);
      }
      auto const at = Arrays::size(row, features) + static_cast<std::size_t>(i);
      double const is = static_cast<double>(narrow_result ? wide(halves[at]) : got[at]);
      double const slack = (narrow_result ? std::abs(expected) / 256 : 0) +
                           of_sums * (p.result == Result::gated ? 1 + std::abs(expected) : 1);
      ASSERT_NEAR(is, expected, slack) << "row " << row << ", column " << i;
    }
  }
  if (has.leaves_norm) expect_norm_left(p, beside, got);
  // Behind the last number nothing has been written.
  auto const written = Arrays::size(p.rows, features) * (narrow_result ? 2 : 4);
  auto const* const bytes = reinterpret_cast<unsigned char const*>(got.data());
  for (std::size_t i = written / 4; i < got.size(); ++i) {
    float there;
    std::memcpy(&there, bytes + 4 * i, sizeof there);
    ASSERT_EQ(there, k_was) << "word " << i;
  }
}

constexpr Result k_results[] = {Result::bf16, Result::fp32, Result::added, Result::gated, Result::gelu};

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

// The norm of its input, biases, and what it leaves for the norm behind it.
TEST(SkinnyGemm, NormsAndShifts) {
  ASSERT_EQ(load(), cudaSuccess);
  for (auto const result : k_results)
    for (int const rows : {1, 7, 16, 33, 64}) {
      bool const added = result == Result::added, gated = result == Result::gated;
      Arrays a({rows, 200, 256, result});
      for (auto const& config : configs(a.problem, 132)) {
        expect_right(a, config, {true, !gated, added});
        expect_right(a, config, {false, !gated, false});
      }
      for (int const tile : {16, 48, 112})
        for (int const split : {1, 4, 8}) expect_right(a, {tile, split, 2, 2}, {true, false, added});
    }
}

// Lanes that have more squares of a row than they load at once.
TEST(SkinnyGemm, NormsOfLongRows) {
  ASSERT_EQ(load(), cudaSuccess);
  for (auto const& [rows, depth] : {std::pair{64, 1088}, {16, 2368}, {1, 64 * 131}}) {
    Arrays a({rows, 48, depth});
    for (auto const& config : configs(a.problem, 132)) expect_right(a, config, {true, true, false});
  }
}

// A vocabulary may be anything.
TEST(SkinnyGemm, LogitsOfAnyNumber) {
  ASSERT_EQ(load(), cudaSuccess);
  for (int const columns : {257, 1001, 1003, 1006})
    for (int const rows : {1, 9, 40}) {
      Arrays a({rows, columns, 192, Result::fp32});
      for (auto const& config : configs(a.problem, 132)) expect_right(a, config, {rows == 9, false, false});
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

/// Clusters of all sizes, launch behind launch without a stop, two inputs in turns: each result is what it is
/// alone. Of fewer rows than a cluster has blocks some finish none.
TEST(SkinnyGemm, ClustersOneBehindTheOther) {
  ASSERT_EQ(load(), cudaSuccess);
  constexpr std::size_t k_kept = 8;
  for (int const rows : {1, 3, 16, 64})
    for (int const split : {2, 4, 8}) {
      SCOPED_TRACE(std::to_string(rows) + " rows, clusters of " + std::to_string(split));
      Problem const first{rows, 1024, 512, Result::bf16}, second{rows, 512, 1024, Result::fp32};
      Config const cut{64, split, 2, 2};
      ASSERT_TRUE(allows(first, cut) && allows(second, cut));
      Arrays a(first), b(second);
      tessera::gpu::DeviceBuffer<unsigned short> other(a.x.size());
      other.upload(numbers(a.x.size(), 5));
      auto const size = Arrays::size(rows, second.columns);
      tessera::gpu::DeviceBuffer<float> results(k_kept * size);
      auto const run = [&](std::size_t i) {
        auto* const input = i % 2 == 0 ? a.x.get() : other.get();
        ASSERT_EQ(launch(first, cut, {input, a.w.get(), a.y.get()}, nullptr), cudaSuccess);
        ASSERT_EQ(launch(second, cut, {a.y.get(), b.w.get(), results.get() + i % k_kept * size}, nullptr),
                  cudaSuccess);
      };
      for (std::size_t i = 0; i < k_kept; ++i) {
        run(i);
        ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
      }
      auto const alone = results.download();
      results.fill(0xff);  // no numbers: what is not written is seen
      for (std::size_t i = 0; i < 50 * k_kept; ++i) run(i);
      ASSERT_EQ(results.download(), alone);
    }
}

}  // namespace
