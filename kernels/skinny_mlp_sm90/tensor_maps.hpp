// SPDX-License-Identifier: Apache-2.0
// Descriptions of matrices for the copy engine. False if the driver refuses.
#pragma once

#include <cuda.h>

#include "kernels/mlp/problem.hpp"

namespace tessera::skinny_sm90 {

/// Boxes of `box_rows` rows by 64 columns.
bool weights_map(CUtensorMap* map, mlp::ElementType type, void const* matrix, int rows, int depth,
                 int box_rows);

/// Boxes of `token_tile` rows by `blocks` times 64 columns where the depth is a multiple of 64, else by 64
/// columns: what lies behind the depth must read as zeros.
bool activations_map(CUtensorMap* map, mlp::ElementType type, void const* matrix, int tokens, int depth,
                     int token_tile, int blocks);

}  // namespace tessera::skinny_sm90
