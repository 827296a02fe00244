// SPDX-License-Identifier: Apache-2.0
// Sums in one launch, as one kernel.
#pragma once

#include <vector>

#include "tessera/describe/kernel.hpp"

namespace tessera::reduction {

std::vector<KernelEntry> catalogue();

}  // namespace tessera::reduction
