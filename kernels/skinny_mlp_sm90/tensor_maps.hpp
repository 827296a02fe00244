// SPDX-License-Identifier: Apache-2.0
// Descriptions of matrices for the copy engine. False if the driver refuses.
#pragma once

#include <cuda.h>

#include "skinny.hpp"

namespace tessera::skinny_sm90 {

/// Boxes of `box_rows` rows by 64 columns.
bool weights_map(CUtensorMap* map, mlp::ElementType type, void const* matrix, int rows, int depth,
                 int box_rows);

/// Boxes of 64 columns by `box_rows` tokens. Where the depth is a multiple of 64, a box is a whole stage;
/// what lies behind another depth must read as zeros.
bool activations_map(CUtensorMap* map, mlp::ElementType type, void const* matrix, int tokens, int depth,
                     int box_rows, int stage_depth);

}  // namespace tessera::skinny_sm90
