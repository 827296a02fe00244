// SPDX-License-Identifier: Apache-2.0
// What T3's paper states, what came out, and what each row is held to.
#pragma once

#include <vector>

#include "tessera/overlap/study.hpp"
#include "tessera/report/study.hpp"

namespace tessera::report {

StudyTable headline_table(std::vector<Headline> const& rows);
StudyTable control_table(std::vector<Headline> const& rows);
StudyTable range_table(OverlapStudy const& study, std::vector<Headline> const& rows);

}  // namespace tessera::report
