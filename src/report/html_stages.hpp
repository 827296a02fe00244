// SPDX-License-Identifier: Apache-2.0
// A plan's stages as tables of a page: how they run, what they compute and move, the critical path, and what
// the planner's letters mean.
#pragma once

#include <string>

#include "tessera/report/report.hpp"

namespace tessera::report {

std::string stage_tables(ReportEntry const& entry);

}  // namespace tessera::report
