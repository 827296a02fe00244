// SPDX-License-Identifier: Apache-2.0
// A timeline's tracks and counters as inline SVG: rows of a chart, below its SMs; empty where it has none.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/timeline.hpp"

namespace tessera::report {

/// One row for each track, its spans coloured by item.
std::string tracks_chart(Timeline const& timeline, std::int64_t scale);

/// One strip for each counter: the rates of its classes, one on top of the other.
std::string counters_chart(Timeline const& timeline, std::int64_t scale);

/// Which colour is which class, once for all counters of the same classes.
std::string counter_legend(Timeline const& timeline);

}  // namespace tessera::report
