// SPDX-License-Identifier: Apache-2.0
// Do the parts of a plan agree with each other?
#pragma once

#include "json/reader.hpp"
#include "tessera/check/check.hpp"
#include "tessera/plan/plan.hpp"

namespace tessera::json {

/// check(), whose findings are led by E0256 at the pipeline's place in the file.
Expected<CheckedPipeline> check_pipeline(Document const& document, Node const& node,
                                         Pipeline const& pipeline);

/// Reports E0257 to E0263 for orders, semaphores, dependences, reuse edges, stage plans, tickets and launches
/// that contradict the pipeline or each other. `root`: the plan's object.
void validate(Document& document, Node const& root, Plan const& plan, CheckedPipeline const& checked);

}  // namespace tessera::json
