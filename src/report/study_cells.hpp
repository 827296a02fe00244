// SPDX-License-Identifier: Apache-2.0
// Cells of a study's tables, as people read them.
#pragma once

#include <string>

#include "tessera/report/study.hpp"

namespace tessera::report {

std::string cell_text(StudyCell const& cell);  ///< numbers with three or four digits that matter

}  // namespace tessera::report
