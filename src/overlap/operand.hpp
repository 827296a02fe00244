// SPDX-License-Identifier: Apache-2.0
// How the slices of a GEMM's operands lie in memory.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tessera/overlap/machine.hpp"

namespace tessera::overlap {

constexpr std::int64_t k_element = 2;  ///< bytes of an fp16

/// A run of equally long pieces at equal distances: a slice of a panel.
struct Pieces {
  std::int64_t first = 0;  ///< address of the first byte
  std::int64_t count = 0;
  std::int64_t stride = 0;
  std::int64_t length = 0;

  double bytes() const { return static_cast<double>(count * length); }
};

/// One operand, cut into panels of rows (of A) or columns (of B) and slices of k.
class Operand {
 public:
  Operand(std::int64_t base, std::int64_t rows, std::int64_t k, int panel, int slice, bool contiguous_in_k)
      : base_(base), rows_(rows), k_(k), panel_(panel), slice_(slice), contiguous_in_k_(contiguous_in_k) {}

  std::int64_t panels() const { return (rows_ + panel_ - 1) / panel_; }
  std::int64_t slices() const { return (k_ + slice_ - 1) / slice_; }
  std::int64_t end() const { return base_ + rows_ * k_ * k_element; }

  Pieces slice(std::int64_t panel, std::int64_t slice) const {
    auto const row = panel * panel_;
    auto const rows = std::min<std::int64_t>(panel_, rows_ - row);
    auto const depth = slice * slice_;
    auto const depths = std::min<std::int64_t>(slice_, k_ - depth);
    if (contiguous_in_k_)
      return {base_ + (row * k_ + depth) * k_element, rows, k_ * k_element, depths * k_element};
    return {base_ + (depth * rows_ + row) * k_element, depths, rows_ * k_element, rows * k_element};
  }

 private:
  std::int64_t base_, rows_, k_;
  std::int64_t panel_, slice_;
  bool contiguous_in_k_;
};

}  // namespace tessera::overlap
