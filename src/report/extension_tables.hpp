// SPDX-License-Identifier: Apache-2.0
// Tables of what section 7 of T3's paper names, and of the Tracker's size.
#pragma once

#include <vector>

#include "tessera/overlap/study.hpp"
#include "tessera/report/study.hpp"

namespace tessera::report {

StudyTable collective_mean_table(std::vector<FusedCollective> const& runs);
StudyTable collective_table(std::vector<FusedCollective> const& runs);
StudyTable tracker_table(OverlapStudy const& study);
StudyTable node_table(std::vector<NodeRing> const& points);
StudyTable generation_table(std::vector<GenerationPoint> const& points);
StudyTable split_table(std::vector<SplitPoint> const& points);
StudyTable precision_table(std::vector<PrecisionPoint> const& points);
StudyTable following_table(OverlapStudy const& study);

}  // namespace tessera::report
