// SPDX-License-Identifier: Apache-2.0
// What is said of a loop that is written out: the same finding in every iteration is one finding.
#pragma once

#include "tessera/describe/loop.hpp"

namespace tessera::check_detail {

/// Keeps the first of findings that differ in the names of iterations alone, and says how many more there
/// are. `further`: iterations that were not looked at and repeat what the last ones found. Precondition: the
/// findings are of unroll(loop, n).
Diagnostics once_each(Diagnostics const& found, Loop const& loop, int further = 0);

}  // namespace tessera::check_detail
