// SPDX-License-Identifier: Apache-2.0
// By how much positions turn queries and keys, as a table: made on the host, without a GPU.
#pragma once

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

}  // namespace tessera::decode
