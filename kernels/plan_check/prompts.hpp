// SPDX-License-Identifier: Apache-2.0
// Prompts of unequal length in a plan: how long they are is data of the device, so a plan has tiles for them
// and does not say it. No CUDA.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/describe/workload.hpp"
#include "tessera/plan/plan.hpp"

namespace tessera::plan_check {

/// Tokens of each prompt; empty: sequences are of one length.
using Prompts = std::vector<std::int64_t>;

/// Of a graph's attention.
Prompts prompts_of(OperatorGraph const& graph);

/// Where each begins, and the last one ends; and of each row its position in its own.
std::vector<std::int32_t> offsets_of(Prompts const& prompts);
std::vector<std::int32_t> positions_of(Prompts const& prompts);

/// E0563: prompts that are not those that the plan has tiles for, that its tiles do not wait for, or that are
/// missing where it needs them.
Expected<void> check_prompts(Plan const& plan, Prompts const& prompts);

}  // namespace tessera::plan_check
