// SPDX-License-Identifier: Apache-2.0
// How often a product goes around a GPU's SMs: what a product costs that is cut into smaller ones by the same
// kernel.
#pragma once

namespace tessera::gemm_collectives {

/// Of cuBLASLt's kernels for many rows, in rows and columns of d (tile 24 of results/h200x2).
constexpr int k_tile_rows = 128, k_tile_columns = 256;

constexpr int rounded_up(int value, int unit) { return (value + unit - 1) / unit; }

constexpr int tiles_of_product(int rows, int columns) {
  return rounded_up(rows, k_tile_rows) * rounded_up(columns, k_tile_columns);
}
constexpr int waves_of_product(int rows, int columns, int sms) {
  return rounded_up(tiles_of_product(rows, columns), sms);
}

}  // namespace tessera::gemm_collectives
