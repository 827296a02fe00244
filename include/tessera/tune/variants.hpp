// SPDX-License-Identifier: Apache-2.0
// Which words for StagePlan::variant make a plan fastest.
#pragma once

#include "search.hpp"

namespace tessera {

/// The plan with those variants of its launches with which it is fastest, tried one launch after the other,
/// each with what was found of those before. A launch without variants, or none of which can be measured, is
/// left as it is.
Plan with_fastest_variants(Plan plan, PlanVariants const& variants, Stopwatch const& measure);

/// Gives stages without a variant that of the same stage of `from`, where the same kernel computes it.
void take_variants(Plan& plan, Plan const& from);

}  // namespace tessera
