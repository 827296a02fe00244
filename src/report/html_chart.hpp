// SPDX-License-Identifier: Apache-2.0
// A timeline as inline SVG that follows the width of the page.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/timeline.hpp"

namespace tessera::report {

/// One row per SM slot, or per group of SMs where there are many, on a time axis from 0 to `scale` ps; below
/// them the tracks and the counters.
/// Classes s0...s7 give the stages' colours, w0...w7 the hatched ones of waiting blocks.
std::string chart(Timeline const& timeline, std::int64_t scale);

/// True when chart() draws every block by itself, with set-up and store told apart.
bool drawn_block_by_block(Timeline const& timeline);

/// The hatch patterns that charts refer to; once per page.
std::string chart_patterns();

inline constexpr int k_stage_colours = 8;

}  // namespace tessera::report
