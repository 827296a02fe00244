// SPDX-License-Identifier: Apache-2.0
// expect: Block<Width>: a block has at least one coordinate
#include "tessera/sync.cuh"

#if defined(BAD)
constexpr int rows = 0;
#else
constexpr int rows = 2;
#endif
static_assert(tessera::BatchedRowSync<rows>{}.count({2, {3, 4, 1, 1}}) == 2, "");
