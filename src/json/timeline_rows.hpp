// SPDX-License-Identifier: Apache-2.0
// A timeline's blocks held against each other and against its stages.
#pragma once

#include <vector>

#include "json/reader.hpp"
#include "tessera/timeline.hpp"

namespace tessera::json {

/// Reports the first row, or stage, that cannot be true beside the others, under `code`. `rows[i]` is where
/// `timeline.tiles[i]` stands; nothing is looked at where there are none.
void check_rows(Document& document, ObjectReader& root, std::vector<Node> const& rows,
                Timeline const& timeline, char const* code);

}  // namespace tessera::json
