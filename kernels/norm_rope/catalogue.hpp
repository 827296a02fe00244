// SPDX-License-Identifier: Apache-2.0
// Norms of rows and turned heads as data, without CUDA. For planning and simulation: no binding launches them
// in a plan.
#pragma once

#include <vector>

#include "tessera/describe/kernel.hpp"

namespace tessera::norm_rope {

/// A norm for each form that norm() launches, by the columns of a row; turned heads by the size of a head.
std::vector<KernelEntry> catalogue();

}  // namespace tessera::norm_rope
