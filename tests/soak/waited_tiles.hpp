// SPDX-License-Identifier: Apache-2.0
// Which tiles of a plan others wait for while they are computed.
#pragma once

#include <vector>

#include "tessera/plan/plan.hpp"

namespace tessera::soak {

/// Stages whose tiles a wait of the same launch, or of one that may start before theirs ends, can be held up
/// by.
std::vector<int> waited_stages(Plan const& plan);

}  // namespace tessera::soak
