// SPDX-License-Identifier: Apache-2.0
#include "kernels/norm_rope/norm.hpp"

#include "norm_rope_gpu/numbers.hpp"

namespace tessera::kernels {
namespace {

void check_norm(int rows, int columns, bool centered, bool vectors, bool shifted) {
  SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(columns) + (centered ? ", centered" : "") +
               (vectors ? ", gains and biases" : "") + (shifted ? ", shifted" : ""));
  auto const r = static_cast<std::size_t>(rows), c = static_cast<std::size_t>(columns);
  auto const x = normal(r * c, 0.7, 3, 1), shift = normal(c, 0, 2, 2);
  auto const gains = rounded(normal(c, 1, 0.3, 3)), biases = rounded(normal(c, 0, 1, 4));
  gpu::DeviceBuffer<float> on_device(r * c), of_shift(c);
  on_device.upload(x), of_shift.upload(shift);
  gpu::DeviceBuffer<unsigned short> of_gains(c), of_biases(c), y((r + 1) * c, gpu::k_poison);
  of_gains.upload(gains), of_biases.upload(biases);
  Norm p;
  p.x = on_device.get(), p.y = y.get();
  if (shifted) p.shift = of_shift.get();
  if (vectors) p.gains = of_gains.get(), p.biases = of_biases.get();
  p.rows = rows, p.columns = columns, p.epsilon = 1e-3f, p.centered = centered;
  gpu::ok(norm(p, nullptr));
  auto const found = y.download();
  auto const left = on_device.download();
  for (std::size_t i = 0; i < r; ++i) {
    std::vector<double> row(c);
    double mean = 0, squares = 0;
    for (std::size_t k = 0; k < c; ++k) {
      float const now = x[i * c + k] + (shifted ? shift[k] : 0);
      ASSERT_EQ(left[i * c + k], now) << "what is left of row " << i << ", column " << k;
      row[k] = static_cast<double>(now);
      mean += row[k] / static_cast<double>(c);
    }
    for (auto& one : row) {
      if (centered) one -= mean;
      squares += one * one / static_cast<double>(c);
    }
    double const scale = 1 / std::sqrt(squares + 1e-3);
    for (std::size_t k = 0; k < c; ++k) {
      double const expected = row[k] * scale * (vectors ? static_cast<double>(from_bf16(gains[k])) : 1) +
                              (vectors ? static_cast<double>(from_bf16(biases[k])) : 0);
      // Of a difference, what fp32 leaves of its operands.
      double const allowed = std::fabs(expected) / 256 * 1.01 + 2e-5;
      ASSERT_LE(std::fabs(static_cast<double>(from_bf16(found[i * c + k])) - expected), allowed)
          << "row " << i << ", column " << k << ": expected " << expected << ", got "
          << from_bf16(found[i * c + k]);
    }
  }
  for (std::size_t k = 0; k < c; ++k) ASSERT_EQ(found[r * c + k], 0xA5A5) << "behind the last row";
}

TEST(Norm, RowsOfAllSizes) {
  for (int const columns : {4, 64, 768, 1024, 1028, 2048, 4096, 8192, 12288, 16384})
    check_norm(columns > 4096 ? 3 : 37, columns, false, false, false);
}
TEST(Norm, WithWhatElseThereIs) {
  for (bool const centered : {false, true})
    for (bool const vectors : {false, true})
      for (bool const shifted : {false, true}) {
        check_norm(5, 2048, centered, vectors, shifted);
        check_norm(129, 300, centered, vectors, shifted);
      }
}
TEST(Norm, RefusesWhatItIsNotFor) {
  for (int const columns : {0, 2, 6, k_most_norm_columns + 4}) {
    Norm p;
    p.rows = 1, p.columns = columns;
    EXPECT_EQ(norm(p, nullptr), cudaErrorInvalidValue);
  }
  Norm p;
  p.columns = 64;
  EXPECT_EQ(norm(p, nullptr), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace tessera::kernels
