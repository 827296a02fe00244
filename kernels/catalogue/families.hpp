// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tessera/describe/kernel.hpp"

namespace tessera {

/// Tile shapes of kernels that others published, for planning and simulation.
std::vector<KernelEntry> published_kernels();

}  // namespace tessera
