// SPDX-License-Identifier: Apache-2.0
// Every tile of a timeline in a page, to zoom into and to ask what it waited for (page/tile_viewer.js).
#pragma once

#include <string>

#include "tessera/plan/plan.hpp"
#include "tessera/timeline.hpp"

namespace tessera::report {

/// Empty where there are no tiles, or too many for a page. Hidden without a script.
std::string tile_viewer(Plan const& plan, Timeline const& timeline);

/// What makes viewers work, once in a page, behind them.
std::string tile_viewer_script();

}  // namespace tessera::report
