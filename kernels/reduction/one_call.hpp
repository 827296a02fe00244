// SPDX-License-Identifier: Apache-2.0
// For tests of sum() without an object.
#pragma once

namespace tessera::reduction {

/// Of the Sums that sum() makes from now on; those with another deadline are not used meanwhile.
void deadline_of_new_sums(double seconds);

}  // namespace tessera::reduction
