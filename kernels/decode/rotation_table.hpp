// SPDX-License-Identifier: Apache-2.0
// By how much positions turn queries and keys, as a table: made on the host, without a GPU.
#pragma once

#include <tessera/sync/config.cuh>
#include <vector>

#include "kernels/decode/model.hpp"

namespace tessera::decode {

struct Turn {
  float cosine = 1, sine = 0;
};

/// Of each pair of dimensions (d, d + head_size / 2), radians for a position; in fp32, as Hugging Face's, for
/// sequences of so many positions.
std::vector<float> frequencies(Rotation const& rotation, int head_size, int positions = 1);
/// [positions][head_size / 2].
std::vector<Turn> rotation_table(Rotation const& rotation, int head_size, int positions);

/// Where a row of heads goes, so that pairs of neighbours are half a head apart: interleaved positions as
/// half-split ones.
TESSERA_HOST_DEVICE constexpr int half_split_row(int row, int head_size) {
  int const in_head = row % head_size;
  return row - in_head + in_head / 2 + in_head % 2 * (head_size / 2);
}

}  // namespace tessera::decode
