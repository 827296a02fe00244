// SPDX-License-Identifier: Apache-2.0
// Nothing can happen any more and blocks are left: who waits for whom, in the user's names.
#pragma once

#include "gpu.hpp"

namespace tessera::simulation {

/// E0501. Precondition: the GPU ran with recorded tiles and did not complete.
Diagnostic explain_deadlock(Gpu const& gpu);

}  // namespace tessera::simulation
