// SPDX-License-Identifier: Apache-2.0
// The family's kernels as data.
#pragma once

#include <vector>

#include "tessera/describe/kernel.hpp"

namespace tessera::skinny_gemm {

/// A kernel for each number of rows that it is compiled for: "skinny_gemm_16", 1 to 16 rows.
std::vector<KernelEntry> catalogue();

}  // namespace tessera::skinny_gemm
