// SPDX-License-Identifier: Apache-2.0
// Cells of a study's tables, as people read them.
#pragma once

#include <string>

#include "tessera/report/study.hpp"

namespace tessera::report {

std::string cell_text(StudyCell const& cell);  ///< numbers with three or four digits that matter

/// A verdict with its mark, which needs no colour: "✓ reproduced", "≈ by other means",
/// "✗ MISSED"; any other text as it is.
std::string verdict_text(std::string const& verdict);

}  // namespace tessera::report
