// SPDX-License-Identifier: Apache-2.0
// Products of a matrix with few columns, as stages of one persistent launch.
#pragma once

#include <vector>

#include "tessera/describe/kernel.hpp"

namespace tessera::skinny_sm90 {

std::vector<KernelEntry> catalogue();

}  // namespace tessera::skinny_sm90
