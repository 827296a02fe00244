// SPDX-License-Identifier: Apache-2.0
// What candidates have in common.
#pragma once

#include <string>

#include "tessera/plan/plan.hpp"

namespace tessera {

/// The same for plans of the same kernels overlapped in the same way, whatever their orders and grids.
std::string kernels_of(Plan const& plan);

}  // namespace tessera
