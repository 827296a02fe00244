// SPDX-License-Identifier: Apache-2.0
// Is every stage sound by itself? Names (E0102), grids (E0101), costs (E0109).
#pragma once

#include <vector>

#include "tessera/describe/pipeline.hpp"

namespace tessera::check_detail {

/// For every stage: can its grid be counted over? Mistakes are appended to `found`.
std::vector<bool> check_stages(Pipeline const& pipeline, Diagnostics& found);

}  // namespace tessera::check_detail
