// SPDX-License-Identifier: Apache-2.0
// A plan as versioned JSON ("schema": "tessera.plan/2"), whole: what the runtime loads without recompiling.
#pragma once

#include <string>
#include <string_view>

#include "plan.hpp"

namespace tessera {

std::string print_plan(Plan const& plan);

/// Reads versions 1 and 2. Refuses text that is not a plan, a newer version, and any plan whose parts
/// contradict each other
/// (indices, counts, permutations, semaphore layout): a plan that this returns is safe to index with. Whether
/// it could get stuck depends on the machine: confirm_own() asks before anything is done with it.
Expected<Plan> parse_plan(std::string_view json, std::string const& file);

}  // namespace tessera
